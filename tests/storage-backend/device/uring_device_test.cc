#include "storage-backend/device/uring_device.h"

#include <algorithm>
#include <fstream>

#include <fcntl.h>
#include <linux/loop.h>
#include <linux/magic.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/units.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/storage-backend/device/device_test_util.h"

namespace ebb::storage {
namespace {

using testing::HasSubstr;

// The error of opening `path`, which must contain its name.
absl::Status OpenFault(const std::string& path, uint64_t expected_bytes = 0) {
  const absl::Status status = UringDevice::Open(path, expected_bytes).status();
  EXPECT_THAT(status.message(), HasSubstr(path));
  return status;
}

TEST(UringDeviceTest, SaysThatTheFileIsMissing) {
  const absl::Status status = OpenFault("/nonexistent/cache.img");

  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(status.message(), HasSubstr("does not exist"));
}

TEST(UringDeviceTest, SaysThatTheFileIsTruncated) {
  const ScratchFolder folder;
  ASSERT_TRUE(CreateDeviceFile(folder.File("a"), kMiB).ok());

  const absl::Status status = OpenFault(folder.File("a"), 2 * kMiB);

  EXPECT_EQ(status.code(), absl::StatusCode::kOutOfRange);
  EXPECT_THAT(status.message(), HasSubstr("1048576 bytes and needs 2097152"));
}

TEST(UringDeviceTest, RefusesAFileThatIsNotWholeBlocks) {
  const ScratchFolder folder;
  std::ofstream(folder.File("odd")) << std::string(5000, 'x');
  std::ofstream(folder.File("empty")).flush();

  EXPECT_THAT(OpenFault(folder.File("odd")).message(), HasSubstr("not a multiple of 4096"));
  EXPECT_THAT(OpenFault(folder.File("empty")).message(), HasSubstr("is empty"));
}

TEST(UringDeviceTest, RefusesWhatIsNoFileOrBlockDevice) {
  const ScratchFolder folder;
  ASSERT_EQ(mkfifo(folder.File("fifo").c_str(), 0600), 0);

  EXPECT_THAT(OpenFault("/tmp").message(), HasSubstr("directory"));
  EXPECT_THAT(OpenFault("/dev/null").message(), HasSubstr("neither a file nor a block device"));
  EXPECT_THAT(OpenFault(folder.File("fifo")).message(), HasSubstr("neither a file"));
}

TEST(UringDeviceTest, SaysThatPermissionIsMissing) {
  const ScratchFolder folder;
  ASSERT_TRUE(CreateDeviceFile(folder.File("a"), kMiB).ok());
  ASSERT_EQ(chmod(folder.File("a").c_str(), 0), 0);
  // Root may open everything, so ask as nobody.
  const bool root = geteuid() == 0;
  ASSERT_TRUE(!root || seteuid(65534) == 0);

  const absl::Status status = OpenFault(folder.File("a"));

  ASSERT_TRUE(!root || seteuid(0) == 0);
  EXPECT_EQ(status.code(), absl::StatusCode::kPermissionDenied);
}

TEST(UringDeviceTest, TwoCannotOpenTheSameFile) {
  const ScratchFolder folder;
  ASSERT_TRUE(CreateDeviceFile(folder.File("a"), kMiB).ok());
  auto first = UringDevice::Open(folder.File("a"));
  ASSERT_TRUE(first.ok()) << first.status();

  const absl::Status status = OpenFault(folder.File("a"));

  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(status.message(), HasSubstr("another node has it open"));
  first->reset();
  EXPECT_TRUE(UringDevice::Open(folder.File("a")).ok());
}

TEST(UringDeviceTest, DiscardGivesSpaceBack) {
  const ScratchFolder folder;
  ASSERT_TRUE(CreateDeviceFile(folder.File("a"), 8 * kMiB).ok());
  auto device = UringDevice::Open(folder.File("a"));
  ASSERT_TRUE(device.ok()) << device.status();
  const AlignedBuffer noise = Noise(4 * kMiB, 1);
  ASSERT_TRUE((*device)->Write(0, {noise.data(), noise.size()}).ok());
  ASSERT_TRUE((*device)->Flush().ok());
  const uint64_t before = *(*device)->AllocatedBytes();

  ASSERT_TRUE((*device)->Discard(0, 4 * kMiB).ok());

  EXPECT_GE(before, 4 * kMiB);
  EXPECT_LT(*(*device)->AllocatedBytes(), kMiB);
}

// Goal: a transfer that the device cannot complete is an error, blocking or queued.
// Method: shorten the file behind the open device's back.
TEST(UringDeviceTest, ShortReadIsAnError) {
  const ScratchFolder folder;
  ASSERT_TRUE(CreateDeviceFile(folder.File("a"), kMiB).ok());
  auto device = UringDevice::Open(folder.File("a"));
  ASSERT_TRUE(device.ok()) << device.status();
  ASSERT_EQ(truncate(folder.File("a").c_str(), 512 * kKiB), 0);
  AlignedBuffer buffer(64 * kKiB);
  Io io{
      .kind = Io::Kind::kRead, .offset = 480 * kKiB, .data = buffer.data(), .bytes = buffer.size()};

  const absl::Status blocking = (*device)->Read(480 * kKiB, buffer.span());
  auto queue = (*device)->MakeQueue(1);
  queue->Submit(&io);
  queue->Reap(1);

  EXPECT_EQ(blocking.code(), absl::StatusCode::kInternal);
  EXPECT_THAT(blocking.message(), HasSubstr("short transfer"));
  EXPECT_EQ(io.status.message(), blocking.message());
}

TEST(UringDeviceTest, CreateRefusesToOverwriteAndOddSizes) {
  const ScratchFolder folder;
  ASSERT_TRUE(CreateDeviceFile(folder.File("a"), kMiB).ok());

  EXPECT_EQ(CreateDeviceFile(folder.File("a"), kMiB).code(), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(CreateDeviceFile(folder.File("b"), 1000).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(CreateDeviceFile(folder.File("b"), 0).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_FALSE(CreateDeviceFile(folder.File("none/b"), kMiB).ok());
}

TEST(UringDeviceTest, AFileInMemoryNeedsNoRing) {
  struct statfs about {};
  if (statfs("/dev/shm", &about) != 0 || about.f_type != TMPFS_MAGIC) {
    GTEST_SKIP() << "/dev/shm is not in memory here";
  }
  const std::string path = "/dev/shm/ebb-uring-device-test-" + std::to_string(getpid());
  ASSERT_TRUE(CreateDeviceFile(path, kMiB).ok());
  auto device = UringDevice::Open(path);
  unlink(path.c_str());
  ASSERT_TRUE(device.ok()) << device.status();
  const auto queue = (*device)->MakeQueue(2);
  AlignedBuffer in(4096);
  AlignedBuffer out(4096);
  in.data()[7] = std::byte{42};
  Io write{.kind = Io::Kind::kWrite, .offset = 8192, .data = in.data(), .bytes = 4096};
  Io read{.kind = Io::Kind::kRead, .offset = 8192, .data = out.data(), .bytes = 4096};

  queue->Submit(&write);
  queue->Submit(&read);

  // Both were done inside Submit, in order: the read found what the write left.
  EXPECT_EQ(queue->Reap(2).size(), 2u);
  EXPECT_EQ(out.data()[7], std::byte{42});
  EXPECT_THAT((*device)->Describe(), HasSubstr("in memory"));
}

TEST(UringDeviceTest, DescribeNamesPathAndSize) {
  const ScratchFolder folder;
  ASSERT_TRUE(CreateDeviceFile(folder.File("a"), kMiB).ok());
  auto device = UringDevice::Open(folder.File("a"));
  ASSERT_TRUE(device.ok()) << device.status();

  EXPECT_THAT((*device)->Describe(), HasSubstr("file " + folder.File("a") + ", 1 MiB"));
}

// A loop device over `file`, gone with the object; empty path where that is not allowed.
class LoopDevice {
 public:
  explicit LoopDevice(const std::string& file) {
    const int control = open("/dev/loop-control", O_RDWR | O_CLOEXEC);
    const int number = control < 0 ? -1 : ioctl(control, LOOP_CTL_GET_FREE);
    if (control >= 0) close(control);
    if (number < 0) return;
    const std::string path = "/dev/loop" + std::to_string(number);
    loop_ = open(path.c_str(), O_RDWR | O_CLOEXEC);
    const int backing = open(file.c_str(), O_RDWR | O_CLOEXEC);
    if (loop_ >= 0 && backing >= 0 && ioctl(loop_, LOOP_SET_FD, backing) == 0) path_ = path;
    if (backing >= 0) close(backing);
  }
  ~LoopDevice() {
    if (!path_.empty()) ioctl(loop_, LOOP_CLR_FD, 0);
    if (loop_ >= 0) close(loop_);
  }
  LoopDevice(const LoopDevice&) = delete;
  LoopDevice& operator=(const LoopDevice&) = delete;
  const std::string& path() const { return path_; }

 private:
  int loop_ = -1;
  std::string path_;
};

TEST(UringDeviceTest, OpensABlockDeviceForItselfAlone) {
  const ScratchFolder folder;
  ASSERT_TRUE(CreateDeviceFile(folder.File("a"), 8 * kMiB).ok());
  const LoopDevice loop(folder.File("a"));
  if (loop.path().empty()) GTEST_SKIP() << "no permission to make a loop device";
  auto device = UringDevice::Open(loop.path(), 8 * kMiB);
  ASSERT_TRUE(device.ok()) << device.status();
  const AlignedBuffer noise = Noise(64 * kKiB, 5);
  AlignedBuffer got(noise.size());

  EXPECT_EQ((*device)->size_bytes(), 8 * kMiB);
  EXPECT_THAT((*device)->Describe(), HasSubstr("block device " + loop.path()));
  ASSERT_TRUE((*device)->Write(kMiB, {noise.data(), noise.size()}).ok());
  ASSERT_TRUE((*device)->Flush().ok());
  ASSERT_TRUE((*device)->Read(kMiB, got.span()).ok());
  EXPECT_TRUE(std::equal(got.data(), got.data() + got.size(), noise.data()));
  EXPECT_TRUE((*device)->Discard(kMiB, 64 * kKiB).ok());
  EXPECT_EQ(*(*device)->AllocatedBytes(), 8 * kMiB);
  EXPECT_EQ(OpenFault(loop.path()).code(), absl::StatusCode::kFailedPrecondition);
}

}  // namespace
}  // namespace ebb::storage
