#include "engine/history/roll_up.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

namespace ebb::engine {
namespace {

constexpr char kOnTrial = 1;
constexpr char kHoldback = 2;
constexpr size_t kPointBytes = 1 + kSeriesColumns.size() * sizeof(float);
constexpr size_t kNumberBytes = sizeof(uint32_t) + 2 * sizeof(float) + sizeof(double);
constexpr size_t kRollUpBytes =
    1 + sizeof(uint32_t) + sizeof(int64_t) + kSeriesColumns.size() * kNumberBytes;

char Flags(bool on_trial, bool holdback) {
  return static_cast<char>((on_trial ? kOnTrial : 0) | (holdback ? kHoldback : 0));
}

template <typename T>
void Put(T value, std::string& bytes) {
  bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
}

template <typename T>
void Take(std::string_view& bytes, T& value) {
  std::memcpy(&value, bytes.data(), sizeof value);
  bytes.remove_prefix(sizeof value);
}

}  // namespace

void RollUp::Add(const SeriesPoint& point) {
  last_ms_ = windows_ == 0 ? point.wall_ms : std::max(last_ms_, point.wall_ms);
  ++windows_;
  on_trial_ = on_trial_ || point.on_trial;
  holdback_ = holdback_ || point.holdback;
  for (size_t i = 0; i < numbers_.size(); ++i) {
    // As narrow as the window itself is stored, so that a roll-up can be made again from there.
    const auto value = static_cast<float>(point.*kSeriesColumns[i].value);
    if (!std::isfinite(value)) continue;
    Number& number = numbers_[i];
    number.min = number.count == 0 ? value : std::min(number.min, value);
    number.max = number.count == 0 ? value : std::max(number.max, value);
    number.sum += static_cast<double>(value);
    ++number.count;
  }
}

void RollUp::Add(const RollUp& other) {
  if (other.windows_ == 0) return;
  last_ms_ = windows_ == 0 ? other.last_ms_ : std::max(last_ms_, other.last_ms_);
  windows_ += other.windows_;
  on_trial_ = on_trial_ || other.on_trial_;
  holdback_ = holdback_ || other.holdback_;
  for (size_t i = 0; i < numbers_.size(); ++i) {
    const Number& from = other.numbers_[i];
    Number& number = numbers_[i];
    if (from.count == 0) continue;
    number.min = number.count == 0 ? from.min : std::min(number.min, from.min);
    number.max = number.count == 0 ? from.max : std::max(number.max, from.max);
    number.sum += from.sum;
    number.count += from.count;
  }
}

SeriesBucket RollUp::ToBucket() const {
  SeriesBucket bucket;
  bucket.windows = windows_;
  for (SeriesPoint* point : {&bucket.mean, &bucket.min, &bucket.max}) {
    point->wall_ms = last_ms_;
    point->on_trial = on_trial_;
    point->holdback = holdback_;
  }
  constexpr double kMissing = std::numeric_limits<double>::quiet_NaN();
  for (size_t i = 0; i < numbers_.size(); ++i) {
    const Number& number = numbers_[i];
    const auto value = kSeriesColumns[i].value;
    const bool known = number.count > 0;
    bucket.counts[i] = number.count;
    bucket.mean.*value = known ? number.sum / number.count : kMissing;
    bucket.min.*value = known ? static_cast<double>(number.min) : kMissing;
    bucket.max.*value = known ? static_cast<double>(number.max) : kMissing;
  }
  return bucket;
}

std::string RollUp::Pack() const {
  std::string bytes(1, Flags(on_trial_, holdback_));
  bytes.reserve(kRollUpBytes);
  Put(windows_, bytes);
  Put(last_ms_, bytes);
  for (const Number& number : numbers_) {
    Put(number.count, bytes);
    Put(number.min, bytes);
    Put(number.max, bytes);
    Put(number.sum, bytes);
  }
  return bytes;
}

bool RollUp::Unpack(std::string_view bytes, RollUp& roll_up) {
  if (bytes.size() != kRollUpBytes) return false;
  roll_up.on_trial_ = (bytes[0] & kOnTrial) != 0;
  roll_up.holdback_ = (bytes[0] & kHoldback) != 0;
  bytes.remove_prefix(1);
  Take(bytes, roll_up.windows_);
  Take(bytes, roll_up.last_ms_);
  for (Number& number : roll_up.numbers_) {
    Take(bytes, number.count);
    Take(bytes, number.min);
    Take(bytes, number.max);
    Take(bytes, number.sum);
  }
  return true;
}

std::string PackPoint(const SeriesPoint& point) {
  std::string bytes(1, Flags(point.on_trial, point.holdback));
  bytes.reserve(kPointBytes);
  for (const SeriesColumn& column : kSeriesColumns) {
    Put(static_cast<float>(point.*column.value), bytes);
  }
  return bytes;
}

bool UnpackPoint(std::string_view bytes, SeriesPoint& point) {
  if (bytes.size() != kPointBytes) return false;
  point.on_trial = (bytes[0] & kOnTrial) != 0;
  point.holdback = (bytes[0] & kHoldback) != 0;
  bytes.remove_prefix(1);
  for (const SeriesColumn& column : kSeriesColumns) {
    float number = 0;
    Take(bytes, number);
    point.*column.value = static_cast<double>(number);
  }
  return true;
}

}  // namespace ebb::engine
