#include "storage-backend/device/faulty_device.h"

#include <algorithm>
#include <bit>

#include "base/check.h"
#include "base/crc32c.h"
#include "base/status.h"
#include "base/units.h"
#include "fmt/format.h"
#include "storage-backend/device/io_check.h"
#include "storage-backend/device/sync_queue.h"

namespace ebb::storage {
namespace {

constexpr uint64_t kSectorBytes = 512;

uint64_t Mix(uint64_t hash, uint64_t value) {
  hash = (hash ^ value) * 0x9e3779b97f4a7c15;
  return std::rotl(hash, 29) ^ (hash >> 32);
}

template <typename T>
void Shuffle(std::deque<T>& items, Rng& rng) {
  for (size_t i = items.size(); i > 1; --i) std::swap(items[i - 1], items[rng.Below(i)]);
}

// Which sectors of a write reached the medium before the power went.
std::vector<bool> SurvivingSectors(size_t count, Rng& rng) {
  const uint64_t fate = rng.Below(10);
  if (fate < 4) return std::vector<bool>(count, true);
  if (fate < 7) return std::vector<bool>(count, false);
  std::vector<bool> survives(count, false);
  if (fate < 9) {
    for (size_t i = 0; i < count; ++i) survives[i] = rng.Chance(0.5);
  } else {
    std::fill_n(survives.begin(), rng.Below(count + 1), true);
  }
  return survives;
}

}  // namespace

void PowerSource::CutAtWrite(uint64_t nth) {
  std::lock_guard lock(mutex_);
  cut_at_write_ = nth;
}

void PowerSource::Cut() {
  std::lock_guard lock(mutex_);
  on_ = false;
}

void PowerSource::Restore() {
  std::lock_guard lock(mutex_);
  on_ = true;
  cut_at_write_ = 0;
}

bool PowerSource::on() const {
  std::lock_guard lock(mutex_);
  return on_;
}

uint64_t PowerSource::writes() const {
  std::lock_guard lock(mutex_);
  return writes_;
}

PowerSource::Moment PowerSource::CountWrite() {
  std::lock_guard lock(mutex_);
  if (!on_) return Moment::kOff;
  if (++writes_ != cut_at_write_) return Moment::kOn;
  on_ = false;
  return Moment::kFailing;
}

class FaultyDisk::Handle final : public Device {
 public:
  Handle(std::shared_ptr<FaultyDisk> disk, uint64_t generation)
      : disk_(std::move(disk)), generation_(generation) {}

  absl::Status Read(uint64_t offset, std::span<std::byte> out) override {
    EBB_RETURN_IF_ERROR(Check(offset, out.size(), out.data()));
    return disk_->Read(generation_, offset, out);
  }
  absl::Status Write(uint64_t offset, std::span<const std::byte> in) override {
    EBB_RETURN_IF_ERROR(Check(offset, in.size(), in.data()));
    return disk_->Write(generation_, offset, in);
  }
  absl::Status Flush() override { return disk_->Flush(generation_); }
  absl::Status Discard(uint64_t offset, uint64_t bytes) override {
    EBB_RETURN_IF_ERROR(Check(offset, bytes, nullptr));
    return disk_->Discard(generation_, offset, bytes);
  }
  std::unique_ptr<IoQueue> MakeQueue(size_t depth) override;
  uint64_t size_bytes() const override { return disk_->options_.size_bytes; }
  uint32_t block_bytes() const override { return kDeviceBlockBytes; }
  absl::StatusOr<uint64_t> AllocatedBytes() override { return size_bytes(); }
  std::string Describe() const override {
    return fmt::format("simulated disk {}, {}", disk_->options_.name, FormatBytes(size_bytes()));
  }

  FaultyDisk& disk() { return *disk_; }

 private:
  absl::Status Check(uint64_t offset, uint64_t bytes, const std::byte* data) const {
    const absl::Status status = CheckTransfer(offset, bytes, data, size_bytes());
    return status.ok() ? status : Annotate(status, Describe());
  }

  const std::shared_ptr<FaultyDisk> disk_;
  const uint64_t generation_;
};

class FaultyDisk::Queue final : public IoQueue {
 public:
  Queue(Handle& handle, size_t depth) : handle_(handle), depth_(depth) {}

  // As on a real disk, what was submitted happens even when nobody waits for it.
  ~Queue() override { Reap(in_flight()); }

  void Submit(Io* io) override {
    EBB_CHECK(waiting_.size() < depth_);
    waiting_.push_back(io);
  }

  std::vector<Io*> Reap(size_t min_completions) override {
    EBB_CHECK(min_completions <= waiting_.size());
    // Sometimes more are done than asked for, as on a real disk.
    const size_t spare = waiting_.size() - min_completions;
    const size_t count = min_completions + handle_.disk().NextRandom(spare + 1);
    std::vector<Io*> done;
    for (size_t i = 0; i < count; ++i) {
      const size_t pick = handle_.disk().NextRandom(waiting_.size());
      Io* io = waiting_[pick];
      waiting_.erase(waiting_.begin() + static_cast<std::ptrdiff_t>(pick));
      ExecuteBlocking(handle_, io);
      done.push_back(io);
    }
    return done;
  }

  size_t in_flight() const override { return waiting_.size(); }
  size_t depth() const override { return depth_; }

 private:
  Handle& handle_;
  const size_t depth_;
  std::vector<Io*> waiting_;
};

std::unique_ptr<IoQueue> FaultyDisk::Handle::MakeQueue(size_t depth) {
  return std::make_unique<Queue>(*this, depth);
}

std::shared_ptr<FaultyDisk> FaultyDisk::Make(const Options& options) {
  EBB_CHECK(options.size_bytes > 0 && options.size_bytes % kDeviceBlockBytes == 0);
  Options complete = options;
  if (complete.power == nullptr) complete.power = std::make_shared<PowerSource>();
  return std::shared_ptr<FaultyDisk>(new FaultyDisk(complete));
}

FaultyDisk::FaultyDisk(const Options& options)
    : options_(options),
      rng_(options.seed),
      durable_(options.size_bytes),
      current_(options.size_bytes) {}

std::unique_ptr<Device> FaultyDisk::Open() {
  std::lock_guard lock(mutex_);
  return std::make_unique<Handle>(shared_from_this(), generation_);
}

void FaultyDisk::FailNth(Io::Kind kind, uint64_t nth, Fault fault) {
  EBB_CHECK(nth > 0);
  std::lock_guard lock(mutex_);
  faults_[{kind, transfers_[kind] + nth}] = fault;
}

void FaultyDisk::LoseAfter(uint64_t transfers) {
  std::lock_guard lock(mutex_);
  transfers_until_lost_ = transfers;
}

void FaultyDisk::FlipBits(uint64_t offset, uint8_t mask) {
  std::lock_guard lock(mutex_);
  EBB_CHECK(offset < options_.size_bytes);
  for (SparseImage* image : {&durable_, &current_}) {
    std::byte byte{};
    image->Read(offset, {&byte, 1});
    byte ^= static_cast<std::byte>(mask);
    image->Write(offset, {&byte, 1});
  }
}

void FaultyDisk::Reboot(uint64_t seed) {
  std::lock_guard lock(mutex_);
  Rng rng(seed);
  Shuffle(unflushed_, rng);
  for (const Unflushed& write : unflushed_) {
    const size_t sectors = write.data.size() / kSectorBytes;
    const std::vector<bool> survives = SurvivingSectors(sectors, rng);
    for (size_t i = 0; i < sectors; ++i) {
      if (!survives[i]) continue;
      durable_.Write(write.offset + i * kSectorBytes,
                     std::span(write.data).subspan(i * kSectorBytes, kSectorBytes));
    }
  }
  // Only where something was un-flushed do the two images differ.
  for (Unflushed& write : unflushed_) {
    durable_.Read(write.offset, write.data);
    current_.Write(write.offset, write.data);
  }
  unflushed_.clear();
  faults_.clear();
  transfers_until_lost_ = ~uint64_t{0};
  fenced_ = false;
  ++generation_;
}

FaultyDisk::Counts FaultyDisk::counts() const {
  std::lock_guard lock(mutex_);
  return counts_;
}

uint64_t FaultyDisk::log_hash() const {
  std::lock_guard lock(mutex_);
  return log_hash_;
}

uint64_t FaultyDisk::unflushed_writes() const {
  std::lock_guard lock(mutex_);
  return static_cast<uint64_t>(
      std::ranges::count(unflushed_, false, [](const Unflushed& one) { return one.is_discard; }));
}

uint64_t FaultyDisk::NextRandom(uint64_t bound) {
  std::lock_guard lock(mutex_);
  return rng_.Below(bound);
}

absl::Status FaultyDisk::CheckAlive(uint64_t generation) const {
  if (options_.power->on() && generation == generation_) return absl::OkStatus();
  return absl::UnavailableError(fmt::format("simulated disk {} has lost its power", options_.name));
}

absl::Status FaultyDisk::CheckFence() const {
  if (!fenced_) return absl::OkStatus();
  return absl::FailedPreconditionError(
      fmt::format("simulated disk {} is fenced: a flush failed earlier", options_.name));
}

bool FaultyDisk::TakeFault(Io::Kind kind, Fault* fault) {
  const auto it = faults_.find({kind, ++transfers_[kind]});
  if (transfers_until_lost_ == 0) {
    *fault = Fault::kLost;
    ++counts_.faults;
    return true;
  }
  --transfers_until_lost_;
  if (it == faults_.end()) return false;
  *fault = it->second;
  faults_.erase(it);
  ++counts_.faults;
  return true;
}

absl::Status FaultyDisk::FaultStatus(Fault fault, const char* verb, uint64_t offset,
                                     uint64_t bytes) {
  const std::string what =
      fmt::format("simulated disk {}: {} {} bytes at {}", options_.name, verb, bytes, offset);
  switch (fault) {
    case Fault::kIoError:
      return absl::InternalError(what + ": I/O error");
    case Fault::kNoSpace:
      return absl::ResourceExhaustedError(what + ": no space left on device");
    case Fault::kShort:
      return absl::InternalError(what + ": short transfer");
    case Fault::kLost:
      return absl::InternalError(what + ": the device is gone");
  }
  EBB_CHECK(false);
  return absl::OkStatus();
}

absl::Status FaultyDisk::Log(const char* verb, uint64_t offset, std::span<const std::byte> data,
                             uint64_t bytes, absl::Status outcome) {
  log_hash_ = Mix(log_hash_, static_cast<uint64_t>(verb[0]));
  log_hash_ = Mix(log_hash_, offset);
  log_hash_ = Mix(log_hash_, bytes);
  log_hash_ = Mix(log_hash_, Crc32c(data));
  log_hash_ = Mix(log_hash_, static_cast<uint64_t>(outcome.code()));
  return outcome;
}

absl::Status FaultyDisk::Read(uint64_t generation, uint64_t offset, std::span<std::byte> out) {
  std::lock_guard lock(mutex_);
  EBB_RETURN_IF_ERROR(CheckAlive(generation));
  ++counts_.reads;
  Fault fault{};
  const bool failed = TakeFault(Io::Kind::kRead, &fault);
  const size_t bytes = !failed ? out.size() : fault == Fault::kShort ? out.size() / 2 : 0;
  current_.Read(offset, out.first(bytes));
  return Log("read", offset, {}, out.size(),
             failed ? FaultStatus(fault, "read", offset, out.size()) : absl::OkStatus());
}

void FaultyDisk::Store(uint64_t offset, std::span<const std::byte> data, bool is_discard) {
  if (data.empty()) return;
  current_.Write(offset, data);
  unflushed_.push_back({offset, {data.begin(), data.end()}, is_discard});
}

std::vector<std::byte> FaultyDisk::Torn(uint64_t offset, std::span<const std::byte> data) {
  std::vector<std::byte> torn(data.begin(), data.end());
  for (size_t at = 0; at < torn.size(); at += kSectorBytes) {
    if (rng_.Chance(0.5)) current_.Read(offset + at, std::span(torn).subspan(at, kSectorBytes));
  }
  return torn;
}

absl::Status FaultyDisk::Change(uint64_t generation, bool is_discard, uint64_t offset,
                                std::span<const std::byte> data) {
  const char* const verb = is_discard ? "discard" : "write";
  EBB_RETURN_IF_ERROR(CheckAlive(generation));
  EBB_RETURN_IF_ERROR(CheckFence());
  const PowerSource::Moment moment = options_.power->CountWrite();
  if (moment != PowerSource::Moment::kOn) {
    if (moment == PowerSource::Moment::kFailing) Store(offset, data, is_discard);
    return Log(verb, offset, data, data.size(), CheckAlive(generation));
  }
  Fault fault{};
  if (!TakeFault(Io::Kind::kWrite, &fault)) {
    Store(offset, data, is_discard);
    return Log(verb, offset, data, data.size(), absl::OkStatus());
  }
  if (fault == Fault::kIoError) Store(offset, Torn(offset, data), is_discard);
  if (fault == Fault::kShort) {
    Store(offset, data.first(data.size() / 2 / kSectorBytes * kSectorBytes), is_discard);
  }
  return Log(verb, offset, data, data.size(), FaultStatus(fault, verb, offset, data.size()));
}

absl::Status FaultyDisk::Write(uint64_t generation, uint64_t offset,
                               std::span<const std::byte> in) {
  std::lock_guard lock(mutex_);
  ++counts_.writes;
  return Change(generation, /*is_discard=*/false, offset, in);
}

absl::Status FaultyDisk::Discard(uint64_t generation, uint64_t offset, uint64_t bytes) {
  std::lock_guard lock(mutex_);
  ++counts_.discards;
  return Change(generation, /*is_discard=*/true, offset, std::vector<std::byte>(bytes));
}

absl::Status FaultyDisk::Flush(uint64_t generation) {
  std::lock_guard lock(mutex_);
  EBB_RETURN_IF_ERROR(CheckAlive(generation));
  EBB_RETURN_IF_ERROR(CheckFence());
  ++counts_.flushes;
  Fault fault{};
  if (TakeFault(Io::Kind::kFlush, &fault)) {
    fenced_ = true;
    return Log("flush", 0, {}, 0, FaultStatus(fault, "flush", 0, 0));
  }
  for (const Unflushed& write : unflushed_) {
    durable_.Write(write.offset, write.data);
  }
  unflushed_.clear();
  return Log("flush", 0, {}, 0, absl::OkStatus());
}

}  // namespace ebb::storage
