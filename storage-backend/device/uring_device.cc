#include "storage-backend/device/uring_device.h"

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <utility>

#include <fcntl.h>
#include <liburing.h>
#include <linux/fs.h>
#include <linux/magic.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/check.h"
#include "base/status.h"
#include "base/units.h"
#include "fmt/format.h"
#include "storage-backend/device/io_check.h"
#include "storage-backend/device/sync_queue.h"

namespace ebb::storage {
namespace {

// Closes on every early return of Open.
class FileHandle {
 public:
  explicit FileHandle(int fd) : fd_(fd) {}
  ~FileHandle() {
    if (fd_ >= 0) close(fd_);
  }
  FileHandle(const FileHandle&) = delete;
  FileHandle& operator=(const FileHandle&) = delete;
  int get() const { return fd_; }
  int release() { return std::exchange(fd_, -1); }

 private:
  int fd_;
};

bool KernelHasIoUring() {
  io_uring ring{};
  if (io_uring_queue_init(1, &ring, 0) != 0) return false;
  io_uring_queue_exit(&ring);
  return true;
}

// A file of tmpfs or ramfs. io_uring hands each of its transfers to a worker thread of the kernel,
// which costs more than the copy.
bool IsInMemory(int fd) {
  struct statfs about {};
  return fstatfs(fd, &about) == 0 && (about.f_type == TMPFS_MAGIC || about.f_type == RAMFS_MAGIC);
}

absl::Status DeviceError(int error_number, const std::string& what) {
  if (error_number == EIO) return absl::InternalError(what + ": I/O error");
  return ErrnoStatus(error_number, what);
}

absl::Status OpenError(const std::string& path, int error_number) {
  switch (error_number) {
    case ENOENT:
    case ENOTDIR:
      return absl::NotFoundError(fmt::format("device {} does not exist", path));
    case EACCES:
    case EPERM:
    case EROFS:
      return absl::PermissionDeniedError(
          fmt::format("no permission to read and write device {}", path));
    case EISDIR:
      return absl::InvalidArgumentError(
          fmt::format("device {} is a directory, not a file or block device", path));
    case EBUSY:
      return absl::FailedPreconditionError(
          fmt::format("device {} is mounted or in use by another program", path));
    default:
      return ErrnoStatus(error_number, fmt::format("cannot open device {}", path));
  }
}

absl::StatusOr<uint64_t> SizeOf(const std::string& path, int fd, const struct stat& about) {
  if (S_ISREG(about.st_mode)) return static_cast<uint64_t>(about.st_size);
  uint64_t bytes = 0;
  if (ioctl(fd, BLKGETSIZE64, &bytes) != 0) {
    return ErrnoStatus(errno, fmt::format("cannot read the size of device {}", path));
  }
  return bytes;
}

absl::Status CheckSize(const std::string& path, uint64_t bytes, uint64_t expected_bytes) {
  if (bytes == 0) return absl::InvalidArgumentError(fmt::format("device {} is empty", path));
  if (bytes < expected_bytes) {
    return absl::OutOfRangeError(fmt::format("device {} is truncated: it has {} bytes and needs {}",
                                             path, bytes, expected_bytes));
  }
  if (bytes % kDeviceBlockBytes != 0) {
    return absl::InvalidArgumentError(fmt::format(
        "device {} has {} bytes, which is not a multiple of {}", path, bytes, kDeviceBlockBytes));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<UringDevice>> UringDevice::Open(const std::string& path,
                                                               uint64_t expected_bytes,
                                                               Access access) {
  struct stat about {};
  if (stat(path.c_str(), &about) != 0) return OpenError(path, errno);
  if (S_ISDIR(about.st_mode)) return OpenError(path, EISDIR);
  Traits traits;
  traits.block_device = S_ISBLK(about.st_mode);
  if (!traits.block_device && !S_ISREG(about.st_mode)) {
    return absl::InvalidArgumentError(
        fmt::format("device {} is neither a file nor a block device", path));
  }
  // O_EXCL makes the kernel refuse a block device that is mounted or part of a RAID or LVM.
  const bool read_only = access == Access::kReadOnly;
  const int flags =
      (read_only ? O_RDONLY : O_RDWR) | O_CLOEXEC | (traits.block_device ? O_EXCL : 0);
  FileHandle file(open(path.c_str(), flags | O_DIRECT));
  if (file.get() < 0) {
    if (errno != EINVAL) return OpenError(path, errno);
    traits.direct = false;
  }
  FileHandle buffered(traits.direct ? -1 : open(path.c_str(), flags));
  if (!traits.direct && buffered.get() < 0) return OpenError(path, errno);
  FileHandle& handle = traits.direct ? file : buffered;
  if (flock(handle.get(), (read_only ? LOCK_SH : LOCK_EX) | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) return ErrnoStatus(errno, fmt::format("cannot lock device {}", path));
    return absl::FailedPreconditionError(
        fmt::format("device {} is locked: another node has it open", path));
  }
  EBB_ASSIGN_OR_RETURN(const uint64_t bytes, SizeOf(path, handle.get(), about));
  EBB_RETURN_IF_ERROR(CheckSize(path, bytes, expected_bytes));
  traits.in_memory = !traits.block_device && IsInMemory(handle.get());
  traits.io_uring = !traits.in_memory && KernelHasIoUring();
  return std::unique_ptr<UringDevice>(new UringDevice(path, handle.release(), bytes, traits));
}

UringDevice::UringDevice(std::string path, int fd, uint64_t size_bytes, Traits traits)
    : path_(std::move(path)), fd_(fd), size_bytes_(size_bytes), traits_(traits) {}

UringDevice::~UringDevice() { close(fd_); }

absl::Status UringDevice::Check(const char* verb, uint64_t offset, uint64_t bytes,
                                const std::byte* data) const {
  const absl::Status status = CheckTransfer(offset, bytes, data, size_bytes_);
  return status.ok() ? status : Annotate(status, fmt::format("{} {}", verb, path_));
}

absl::Status UringDevice::CheckFence() const {
  if (!fenced_.load(std::memory_order_acquire)) return absl::OkStatus();
  return absl::FailedPreconditionError(fmt::format(
      "device {} is fenced: a flush failed earlier, so what it holds is not known", path_));
}

absl::Status UringDevice::FailFlush(int error_number) {
  fenced_.store(true, std::memory_order_release);
  return DeviceError(error_number, fmt::format("flush of device {}", path_));
}

absl::Status UringDevice::TransferError(const char* verb, uint64_t offset, size_t bytes,
                                        int error_number) const {
  const std::string what =
      fmt::format("{} {} bytes at {} of device {}", verb, bytes, offset, path_);
  if (error_number == 0) {
    return absl::InternalError(what + ": short transfer, the device has shrunk");
  }
  return DeviceError(error_number, what);
}

absl::Status UringDevice::ReadFrom(uint64_t offset, std::byte* data, size_t bytes,
                                   size_t done) const {
  while (done < bytes) {
    const ssize_t got = pread(fd_, data + done, bytes - done, static_cast<off_t>(offset + done));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return TransferError("read", offset, bytes, got < 0 ? errno : 0);
    done += static_cast<size_t>(got);
  }
  return absl::OkStatus();
}

absl::Status UringDevice::WriteFrom(uint64_t offset, const std::byte* data, size_t bytes,
                                    size_t done) const {
  while (done < bytes) {
    const ssize_t put = pwrite(fd_, data + done, bytes - done, static_cast<off_t>(offset + done));
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) return TransferError("write", offset, bytes, put < 0 ? errno : 0);
    done += static_cast<size_t>(put);
  }
  return absl::OkStatus();
}

absl::Status UringDevice::Read(uint64_t offset, std::span<std::byte> out) {
  const std::byte* const aligned = traits_.in_memory ? nullptr : out.data();
  EBB_RETURN_IF_ERROR(Check("read", offset, out.size(), aligned));
  return ReadFrom(offset, out.data(), out.size(), 0);
}

absl::Status UringDevice::Write(uint64_t offset, std::span<const std::byte> in) {
  EBB_RETURN_IF_ERROR(CheckFence());
  EBB_RETURN_IF_ERROR(Check("write", offset, in.size(), in.data()));
  return WriteFrom(offset, in.data(), in.size(), 0);
}

absl::Status UringDevice::Flush() {
  EBB_RETURN_IF_ERROR(CheckFence());
  while (fdatasync(fd_) != 0) {
    if (errno != EINTR) return FailFlush(errno);
  }
  // A flush of another thread may have eaten the error that was meant for both.
  return CheckFence();
}

absl::Status UringDevice::Discard(uint64_t offset, uint64_t bytes) {
  EBB_RETURN_IF_ERROR(CheckFence());
  EBB_RETURN_IF_ERROR(Check("discard", offset, bytes, nullptr));
  if (bytes == 0) return absl::OkStatus();
  int result = 0;
  do {
    if (traits_.block_device) {
      uint64_t range[2] = {offset, bytes};
      result = ioctl(fd_, BLKDISCARD, range);
    } else {
      result = fallocate(fd_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                         static_cast<off_t>(offset), static_cast<off_t>(bytes));
    }
  } while (result != 0 && errno == EINTR);
  if (result == 0 || errno == EOPNOTSUPP || errno == ENOTTY) return absl::OkStatus();
  return TransferError("discard", offset, bytes, errno);
}

uint32_t UringDevice::block_bytes() const { return kDeviceBlockBytes; }

absl::StatusOr<uint64_t> UringDevice::AllocatedBytes() {
  if (traits_.block_device) return size_bytes_;
  struct stat about {};
  if (fstat(fd_, &about) != 0) return ErrnoStatus(errno, fmt::format("stat {}", path_));
  return static_cast<uint64_t>(about.st_blocks) * 512;
}

std::string UringDevice::Describe() const {
  return fmt::format("{} {}, {}{}{}", traits_.block_device ? "block device" : "file", path_,
                     FormatBytes(size_bytes_), traits_.direct ? "" : ", buffered (no O_DIRECT)",
                     traits_.in_memory  ? ", in memory"
                     : traits_.io_uring ? ""
                                        : ", without io_uring");
}

// A ring for one submitter. Requests that cannot be started (bad range, fenced) complete at once
// and are handed back by Reap like the others.
class UringDevice::Queue final : public IoQueue {
 public:
  static std::unique_ptr<IoQueue> Make(UringDevice& device, size_t depth) {
    auto queue = std::unique_ptr<Queue>(new Queue(device, depth));
    if (io_uring_queue_init(static_cast<unsigned>(depth), &queue->ring_, 0) != 0) return nullptr;
    queue->ring_ready_ = true;
    return queue;
  }

  ~Queue() override {
    if (!ring_ready_) return;
    // The kernel still writes into the buffers of requests in flight: wait for them.
    while (in_kernel_ > 0) Collect(in_kernel_);
    io_uring_queue_exit(&ring_);
  }

  void Submit(Io* io) override {
    Prepare(io);
    Start();
  }

  void SubmitAll(std::span<Io* const> ios) override {
    for (Io* io : ios) Prepare(io);
    Start();
  }

  std::vector<Io*> Reap(size_t min_completions) override {
    EBB_CHECK(min_completions <= in_flight());
    Collect(0);
    while (done_.size() < min_completions) Collect(min_completions - done_.size());
    return std::exchange(done_, {});
  }

  size_t in_flight() const override { return in_kernel_ + done_.size(); }
  size_t depth() const override { return depth_; }

  void RegisterMemory(std::span<std::byte> memory) override {
    EBB_CHECK(in_flight() == 0);
    const iovec range = {.iov_base = memory.data(), .iov_len = memory.size()};
    // The kernel may refuse (RLIMIT_MEMLOCK, more than 1 GiB): then it pins for each transfer.
    if (io_uring_register_buffers(&ring_, &range, 1) == 0) registered_ = memory;
  }

 private:
  Queue(UringDevice& device, size_t depth) : device_(device), depth_(depth) {}

  void Prepare(Io* io) {
    EBB_CHECK(in_flight() < depth_);
    io->status = Admit(*io);
    if (!io->status.ok()) {
      done_.push_back(io);
      return;
    }
    io_uring_sqe* sqe = io_uring_get_sqe(&ring_);
    EBB_CHECK(sqe != nullptr);  // at most depth_ are in flight and each Start empties the ring
    // The kernel takes 32-bit lengths; the rest of a longer transfer is done in Finish.
    const auto bytes = static_cast<unsigned>(std::min<size_t>(io->bytes, 1U << 30));
    const bool fixed = IsRegistered(io->data, bytes);
    switch (io->kind) {
      case Io::Kind::kRead:
        if (fixed) {
          io_uring_prep_read_fixed(sqe, device_.fd_, io->data, bytes, io->offset, 0);
        } else {
          io_uring_prep_read(sqe, device_.fd_, io->data, bytes, io->offset);
        }
        break;
      case Io::Kind::kWrite:
        if (fixed) {
          io_uring_prep_write_fixed(sqe, device_.fd_, io->data, bytes, io->offset, 0);
        } else {
          io_uring_prep_write(sqe, device_.fd_, io->data, bytes, io->offset);
        }
        break;
      case Io::Kind::kFlush:
        io_uring_prep_fsync(sqe, device_.fd_, IORING_FSYNC_DATASYNC);
        break;
    }
    io_uring_sqe_set_data(sqe, io);
    ++in_kernel_;
  }

  bool IsRegistered(const std::byte* data, size_t bytes) const {
    const auto offset = static_cast<size_t>(data - registered_.data());
    return data >= registered_.data() && offset < registered_.size() &&
           bytes <= registered_.size() - offset;
  }

  absl::Status Admit(const Io& io) const {
    if (io.kind != Io::Kind::kRead) EBB_RETURN_IF_ERROR(device_.CheckFence());
    if (io.kind == Io::Kind::kFlush) return absl::OkStatus();
    return device_.Check(io.kind == Io::Kind::kRead ? "read" : "write", io.offset, io.bytes,
                         io.data);
  }

  void Start() {
    while (io_uring_sq_ready(&ring_) > 0) {
      const int result = io_uring_submit(&ring_);
      // EAGAIN and EBUSY: the kernel is short of memory or completions wait to be taken.
      if (result == -EAGAIN || result == -EBUSY) Collect(0);
      EBB_CHECK(result >= 0 || result == -EINTR || result == -EAGAIN || result == -EBUSY);
    }
  }

  // Takes what is complete into done_, waiting for at least `min_completions`.
  void Collect(size_t min_completions) {
    if (min_completions > 0) {
      io_uring_cqe* first = nullptr;
      const int result =
          io_uring_wait_cqe_nr(&ring_, &first, static_cast<unsigned>(min_completions));
      EBB_CHECK(result == 0 || result == -EINTR || result == -EAGAIN);
    }
    io_uring_cqe* cqe = nullptr;
    while (in_kernel_ > 0 && io_uring_peek_cqe(&ring_, &cqe) == 0) {
      Io* io = static_cast<Io*>(io_uring_cqe_get_data(cqe));
      const int result = cqe->res;
      io_uring_cqe_seen(&ring_, cqe);
      --in_kernel_;
      Finish(io, result);
      done_.push_back(io);
    }
  }

  void Finish(Io* io, int result) {
    if (io->kind == Io::Kind::kFlush) {
      // Interrupted before it began: run it again here rather than fence a healthy device.
      if (result == -EINTR || result == -EAGAIN) {
        io->status = device_.Flush();
      } else {
        io->status = result < 0 ? device_.FailFlush(-result) : device_.CheckFence();
      }
      return;
    }
    const bool retry = result == -EINTR || result == -EAGAIN;
    const bool read = io->kind == Io::Kind::kRead;
    if (result < 0 && !retry) {
      io->status = device_.TransferError(read ? "read" : "write", io->offset, io->bytes, -result);
      return;
    }
    // A short transfer is finished in place: that yields the rest or the reason.
    const size_t done = retry ? 0 : static_cast<size_t>(result);
    io->status = read ? device_.ReadFrom(io->offset, io->data, io->bytes, done)
                      : device_.WriteFrom(io->offset, io->data, io->bytes, done);
  }

  UringDevice& device_;
  const size_t depth_;
  io_uring ring_{};
  std::span<std::byte> registered_;
  bool ring_ready_ = false;
  size_t in_kernel_ = 0;
  std::vector<Io*> done_;
};

std::unique_ptr<IoQueue> UringDevice::MakeQueue(size_t depth) {
  if (traits_.io_uring) {
    if (auto queue = Queue::Make(*this, depth)) return queue;
  }
  return std::make_unique<SyncQueue>(*this, depth);
}

absl::Status CreateDeviceFile(const std::string& path, uint64_t bytes) {
  if (bytes == 0 || bytes % kDeviceBlockBytes != 0) {
    return absl::InvalidArgumentError(
        fmt::format("cannot create device file {}: {} bytes is not a positive multiple of {}", path,
                    bytes, kDeviceBlockBytes));
  }
  FileHandle file(open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (file.get() < 0) {
    if (errno == EEXIST) {
      return absl::AlreadyExistsError(
          fmt::format("cannot create device file {}: it exists already", path));
    }
    return ErrnoStatus(errno, fmt::format("cannot create device file {}", path));
  }
  if (ftruncate(file.get(), static_cast<off_t>(bytes)) != 0 || fsync(file.get()) != 0) {
    const int error_number = errno;
    unlink(path.c_str());
    return ErrnoStatus(error_number, fmt::format("cannot give device file {} its size of {}", path,
                                                 FormatBytes(bytes)));
  }
  const std::string folder = std::filesystem::path(path).parent_path().string();
  FileHandle directory(open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY));
  if (directory.get() < 0 || fsync(directory.get()) != 0) {
    return ErrnoStatus(errno, fmt::format("cannot sync the folder of device file {}", path));
  }
  return absl::OkStatus();
}

}  // namespace ebb::storage
