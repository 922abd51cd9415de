// The calls that the shim puts in front of libc's, taken out of it and called by hand.
#include <array>
#include <cerrno>
#include <string>
#include <thread>

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

namespace ebb::storage {
namespace {

using SendFn = ssize_t (*)(int, const void*, size_t, int);
using MutexInitFn = int (*)(pthread_mutex_t*, const pthread_mutexattr_t*);

// NBD's simple reply: magic, error 0, a handle.
const std::string kReply("\x67\x44\x66\x98\0\0\0\0handle12", 16);

class NbdkitShimTest : public testing::Test {
 protected:
  void SetUp() override {
    shim_ = dlopen(EBB_SHIM, RTLD_NOW | RTLD_LOCAL);
    ASSERT_NE(shim_, nullptr) << dlerror();
    send_ = reinterpret_cast<SendFn>(dlsym(shim_, "send"));
    ASSERT_NE(send_, nullptr);
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets_.data()), 0);
  }
  void TearDown() override {
    for (const int fd : sockets_) close(fd);
  }
  ssize_t Send(const std::string& bytes, int flags) {
    return send_(sockets_[0], bytes.data(), bytes.size(), flags | MSG_NOSIGNAL);
  }
  // What is there now.
  std::string Arrived() {
    std::string bytes(1 << 16, '\0');
    const ssize_t got = recv(sockets_[1], bytes.data(), bytes.size(), MSG_DONTWAIT);
    bytes.resize(got > 0 ? static_cast<size_t>(got) : 0);
    return bytes;
  }

  void* shim_ = nullptr;
  SendFn send_ = nullptr;
  std::array<int, 2> sockets_{-1, -1};
};

TEST_F(NbdkitShimTest, ReplyLeavesWithItsData) {
  EXPECT_EQ(Send(kReply, MSG_MORE), 16);
  EXPECT_EQ(Arrived(), "");
  EXPECT_EQ(Send("data of the read", 0), 16);
  EXPECT_EQ(Arrived(), kReply + "data of the read");
  EXPECT_EQ(Send("next", 0), 4);
  EXPECT_EQ(Arrived(), "next");
}

TEST_F(NbdkitShimTest, NothingElseIsHeldBack) {
  EXPECT_EQ(Send(kReply, 0), 16);  // of a write, or an error: no data follows
  EXPECT_EQ(Arrived(), kReply);
  EXPECT_EQ(Send("sixteen bytes...", MSG_MORE), 16);
  EXPECT_EQ(Arrived(), "sixteen bytes...");
}

// Goal: data larger than the socket takes at once comes in pieces, and none is lost or twice.
TEST_F(NbdkitShimTest, LargeDataComesThroughInPieces) {
  const int small = 4096;
  ASSERT_EQ(setsockopt(sockets_[0], SOL_SOCKET, SO_SNDBUF, &small, sizeof small), 0);
  std::string data(3 << 20, '\0');
  for (size_t i = 0; i < data.size(); ++i) data[i] = static_cast<char>(i * 31 >> 7);
  std::string received;
  std::thread reader([&] {
    std::string piece(1000, '\0');
    while (received.size() < kReply.size() + data.size()) {
      const ssize_t got = recv(sockets_[1], piece.data(), piece.size(), 0);
      if (got <= 0) break;
      received.append(piece, 0, static_cast<size_t>(got));
    }
  });

  EXPECT_EQ(Send(kReply, MSG_MORE), 16);
  for (size_t sent = 0; sent < data.size();) {
    const ssize_t now = send_(sockets_[0], data.data() + sent, data.size() - sent, MSG_NOSIGNAL);
    ASSERT_GT(now, 0);
    sent += static_cast<size_t>(now);
  }
  reader.join();

  EXPECT_TRUE(received == kReply + data);
}

// Goal: threads answer on connections of their own; what one holds is not another's.
TEST_F(NbdkitShimTest, EachThreadHoldsItsOwnReply) {
  EXPECT_EQ(Send(kReply, MSG_MORE), 16);
  std::thread([&] { EXPECT_EQ(Send("other", 0), 5); }).join();
  EXPECT_EQ(Arrived(), "other");
  EXPECT_EQ(Send("data", 0), 4);
  EXPECT_EQ(Arrived(), kReply + "data");
}

TEST_F(NbdkitShimTest, AClientThatIsGoneTakesEverything) {
  close(sockets_[1]);
  sockets_[1] = -1;
  EXPECT_EQ(Send("reply to a write", 0), 16);
  EXPECT_EQ(Send(kReply, MSG_MORE), 16);
  EXPECT_EQ(Send("data", 0), 4);
  EXPECT_EQ(Send("data", 0), 4);
}

TEST_F(NbdkitShimTest, OtherErrorsStayErrors) {
  EXPECT_EQ(send_(-1, "x", 1, MSG_NOSIGNAL), -1);
  EXPECT_EQ(errno, EBADF);
  EXPECT_EQ(send_(-1, kReply.data(), kReply.size(), 0), -1);
}

TEST_F(NbdkitShimTest, PlainLocksSpinBeforeTheySleep) {
  const auto init = reinterpret_cast<MutexInitFn>(dlsym(shim_, "pthread_mutex_init"));
  ASSERT_NE(init, nullptr);
  pthread_mutex_t mutex;
  ASSERT_EQ(init(&mutex, nullptr), 0);
  EXPECT_EQ(mutex.__data.__kind & 3, PTHREAD_MUTEX_ADAPTIVE_NP);
  pthread_mutex_destroy(&mutex);

  pthread_mutexattr_t recursive;
  pthread_mutexattr_init(&recursive);
  pthread_mutexattr_settype(&recursive, PTHREAD_MUTEX_RECURSIVE);
  ASSERT_EQ(init(&mutex, &recursive), 0);
  EXPECT_EQ(mutex.__data.__kind & 3, PTHREAD_MUTEX_RECURSIVE);
  pthread_mutex_destroy(&mutex);
  pthread_mutexattr_destroy(&recursive);
}

}  // namespace
}  // namespace ebb::storage
