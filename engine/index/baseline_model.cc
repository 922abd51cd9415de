#include "engine/index/baseline_model.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include <Eigen/Dense>
#include <fmt/format.h>

namespace ebb::engine {
namespace {

constexpr size_t kColumns = 1 + kLoadFeatureCount;
constexpr size_t kDoublesPerSample = kLoadFeatureCount + kComponentCount;
constexpr size_t kBytesPerSample = kDoublesPerSample * sizeof(double) + 1;
constexpr std::string_view kMagic = "ebbbase1";
constexpr double kNearnessMin = 1e-3;
// Neighbouring windows are alike (autocorrelation about 0.5), so n of them tell as much as n / 3.
constexpr double kCorrelationInflation = 3;
// A residual beyond this many robust deviations counts only up to there: a stall in one window must
// not shift the baseline.
constexpr double kOutlierDeviations = 3;

using Matrix = Eigen::Matrix<double, kColumns, kColumns>;
using Vector = Eigen::Matrix<double, kColumns, 1>;

struct Row {
  Vector x;
  double weight = 0;
  const ComponentLogs* logs = nullptr;
};

double WeightedMedian(std::vector<std::pair<double, double>>& value_weight) {
  std::sort(value_weight.begin(), value_weight.end());
  double total = 0;
  for (const auto& [value, weight] : value_weight) total += weight;
  double sum = 0;
  for (const auto& [value, weight] : value_weight) {
    sum += weight;
    if (sum >= total / 2) return value;
  }
  return value_weight.empty() ? 0 : value_weight.back().first;
}

// Fits one component: its level at the asked load and the spread around the fit.
void FitComponent(const std::vector<Row>& rows, const Eigen::LLT<Matrix>& factor, size_t component,
                  double& mean, double& spread) {
  // Around the median: the ridge must pull slopes to zero, never the level.
  std::vector<std::pair<double, double>> scratch;
  scratch.reserve(rows.size());
  for (const Row& row : rows) scratch.emplace_back(row.logs->value[component], row.weight);
  const double centre = WeightedMedian(scratch);
  std::vector<double> target(rows.size());
  for (size_t i = 0; i < rows.size(); ++i) target[i] = rows[i].logs->value[component] - centre;
  Vector beta = Vector::Zero();
  double deviation = 0;
  for (int pass = 0; pass < 3; ++pass) {
    Vector moment = Vector::Zero();
    for (size_t i = 0; i < rows.size(); ++i) {
      double value = target[i];
      if (pass > 0) {
        const double fit = beta.dot(rows[i].x);
        value = std::clamp(value, fit - kOutlierDeviations * deviation,
                           fit + kOutlierDeviations * deviation);
      }
      moment += rows[i].weight * value * rows[i].x;
    }
    beta = factor.solve(moment);
    scratch.clear();
    for (size_t i = 0; i < rows.size(); ++i) {
      scratch.emplace_back(std::abs(target[i] - beta.dot(rows[i].x)), rows[i].weight);
    }
    deviation = std::max(1e-4, 1.4826 * WeightedMedian(scratch));
  }
  mean = centre + beta(0);
  spread = deviation;
}

}  // namespace

void BaselineModel::Learn(const LoadFeatures& features, const ComponentLogs& logs) {
  if (!logs.has_read && !logs.has_write) return;
  samples_.push_back({features, logs});
  if (samples_.size() > config_.samples_max) samples_.pop_front();
}

double BaselineModel::NearWindows(const LoadFeatures& features) const {
  double sum = 0;
  for (const Sample& sample : samples_) {
    sum += std::exp(-0.5 * SquaredDistance(sample.features, features));
  }
  return sum;
}

void BaselineModel::PredictKind(const LoadFeatures& features, size_t first,
                                BaselineEstimate& estimate) const {
  std::vector<Row> rows;
  Matrix normal = Matrix::Zero();
  double near_windows = 0;
  for (size_t i = 0; i < samples_.size(); ++i) {
    if (!samples_[i].logs.has(first)) continue;
    const double nearness = std::exp(-0.5 * SquaredDistance(samples_[i].features, features));
    if (nearness < kNearnessMin) continue;
    near_windows += nearness;
    // Old windows are evidence that the load was seen, but newer ones tell more about its level.
    const double age = static_cast<double>(samples_.size() - 1 - i);
    const double weight = nearness * std::exp2(-age / config_.half_life_windows);
    Row row{Vector::Zero(), weight, &samples_[i].logs};
    row.x(0) = 1;
    for (size_t j = 0; j < kLoadFeatureCount; ++j) {
      row.x(static_cast<Eigen::Index>(j + 1)) = samples_[i].features.value[j] - features.value[j];
    }
    normal += weight * row.x * row.x.transpose();
    rows.push_back(row);
  }
  if (near_windows < config_.near_windows_min) return;
  for (Eigen::Index j = 1; j < normal.rows(); ++j) normal(j, j) += config_.ridge;
  const Eigen::LLT<Matrix> factor(normal);
  const double level_variance = factor.solve(Vector::Unit(0))(0);
  for (size_t k = first; k < first + kComponentsPerKind; ++k) {
    double spread = 0;
    FitComponent(rows, factor, k, estimate.log_mean[k], spread);
    estimate.log_sd[k] = spread * std::sqrt(kCorrelationInflation * level_variance);
  }
  (first == 0 ? estimate.has_read : estimate.has_write) = true;
}

BaselineEstimate BaselineModel::Predict(const LoadFeatures& features) const {
  BaselineEstimate estimate;
  estimate.near_windows = NearWindows(features);
  PredictKind(features, 0, estimate);
  PredictKind(features, kComponentsPerKind, estimate);
  return estimate;
}

std::string BaselineModel::Save() const {
  std::string bytes(kMagic);
  bytes.reserve(kMagic.size() + samples_.size() * kBytesPerSample);
  for (const Sample& sample : samples_) {
    std::array<double, kDoublesPerSample> numbers;
    std::copy(sample.features.value.begin(), sample.features.value.end(), numbers.begin());
    std::copy(sample.logs.value.begin(), sample.logs.value.end(),
              numbers.begin() + kLoadFeatureCount);
    bytes.append(reinterpret_cast<const char*>(numbers.data()), sizeof numbers);
    bytes.push_back(static_cast<char>((sample.features.closed_loop ? 1 : 0) |
                                      (sample.logs.has_read ? 2 : 0) |
                                      (sample.logs.has_write ? 4 : 0)));
  }
  return bytes;
}

absl::Status BaselineModel::Load(std::string_view bytes) {
  if (!bytes.starts_with(kMagic) || (bytes.size() - kMagic.size()) % kBytesPerSample != 0) {
    return absl::DataLossError("the saved baseline has an unknown format");
  }
  bytes.remove_prefix(kMagic.size());
  std::deque<Sample> samples;
  for (; !bytes.empty(); bytes.remove_prefix(kBytesPerSample)) {
    std::array<double, kDoublesPerSample> numbers;
    std::memcpy(numbers.data(), bytes.data(), sizeof numbers);
    if (!std::all_of(numbers.begin(), numbers.end(), [](double v) { return std::isfinite(v); })) {
      return absl::DataLossError("the saved baseline holds a number that is not finite");
    }
    Sample sample;
    std::copy_n(numbers.begin(), kLoadFeatureCount, sample.features.value.begin());
    std::copy_n(numbers.begin() + kLoadFeatureCount, kComponentCount, sample.logs.value.begin());
    const auto flags = static_cast<unsigned char>(bytes[kBytesPerSample - 1]);
    sample.features.closed_loop = (flags & 1) != 0;
    sample.logs.has_read = (flags & 2) != 0;
    sample.logs.has_write = (flags & 4) != 0;
    samples.push_back(sample);
  }
  samples_ = std::move(samples);
  while (samples_.size() > config_.samples_max) samples_.pop_front();
  return absl::OkStatus();
}

}  // namespace ebb::engine
