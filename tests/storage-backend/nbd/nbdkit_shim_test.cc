// The calls that the shim puts in front of libc's, taken out of it and called by hand.
#include <array>
#include <atomic>
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

// A worker's turn, with the shim's calls in place of libc's.
class NbdkitTurnTest : public NbdkitShimTest {
 protected:
  using OnMutexFn = int (*)(pthread_mutex_t*);
  using ReadFn = ssize_t (*)(int, void*, size_t);

  void SetUp() override {
    NbdkitShimTest::SetUp();
    lock_ = reinterpret_cast<OnMutexFn>(dlsym(shim_, "pthread_mutex_lock"));
    unlock_ = reinterpret_cast<OnMutexFn>(dlsym(shim_, "pthread_mutex_unlock"));
    destroy_ = reinterpret_cast<OnMutexFn>(dlsym(shim_, "pthread_mutex_destroy"));
    read_ = reinterpret_cast<ReadFn>(dlsym(shim_, "read"));
    may_block_ = reinterpret_cast<void (*)()>(dlsym(shim_, "ebb_nbdkit_may_block"));
    ASSERT_TRUE(lock_ != nullptr && unlock_ != nullptr && destroy_ != nullptr);
    ASSERT_TRUE(read_ != nullptr && may_block_ != nullptr);
  }
  // What a worker of nbdkit does to receive a request.
  void Receive(const std::string& request) {
    ASSERT_EQ(write(sockets_[1], request.data(), request.size()),
              static_cast<ssize_t>(request.size()));
    ASSERT_EQ(lock_(&turn_), 0);
    ASSERT_EQ(lock_(&status_), 0);
    ASSERT_EQ(unlock_(&status_), 0);
    std::string bytes(request.size(), '\0');
    ASSERT_EQ(read_(sockets_[0], bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
    ASSERT_EQ(unlock_(&turn_), 0);
  }
  // Whether another worker could receive now: asked of the lock itself, with libc's own call.
  bool IsFree() {
    if (pthread_mutex_trylock(&turn_) != 0) return false;
    pthread_mutex_unlock(&turn_);
    return true;
  }

  const std::string request_ = std::string("\x25\x60\x95\x13", 4) + std::string(24, 'r');
  pthread_mutex_t turn_ = PTHREAD_MUTEX_INITIALIZER;
  pthread_mutex_t status_ = PTHREAD_MUTEX_INITIALIZER;
  OnMutexFn lock_ = nullptr;
  OnMutexFn unlock_ = nullptr;
  OnMutexFn destroy_ = nullptr;
  ReadFn read_ = nullptr;
  void (*may_block_)() = nullptr;
};

TEST_F(NbdkitTurnTest, IsKeptFromRequestToRequest) {
  for (int i = 0; i < 3; ++i) {
    Receive(request_);
    EXPECT_FALSE(IsFree());
  }
  may_block_();
  EXPECT_TRUE(IsFree());
  may_block_();  // nothing more to give
  EXPECT_TRUE(IsFree());
  Receive(request_);
  EXPECT_FALSE(IsFree());
  may_block_();
}

TEST_F(NbdkitTurnTest, OtherLocksAndOtherBytesAreNotKept) {
  Receive(std::string(28, 'x'));  // no request
  EXPECT_TRUE(IsFree());
  Receive(request_ + "more");  // not read on its own
  EXPECT_TRUE(IsFree());
  Receive(request_);
  ASSERT_EQ(lock_(&status_), 0);
  ASSERT_EQ(unlock_(&status_), 0);
  EXPECT_EQ(pthread_mutex_trylock(&status_), 0);
  pthread_mutex_unlock(&status_);
  may_block_();
}

// Goal: a connection's last worker leaves no lock behind that another waits for.
TEST_F(NbdkitTurnTest, EndsWithItsThread) {
  std::thread([&] {
    Receive(request_);
    EXPECT_FALSE(IsFree());
  }).join();
  EXPECT_TRUE(IsFree());
}

TEST_F(NbdkitTurnTest, EndsWithItsLock) {
  Receive(request_);
  EXPECT_EQ(destroy_(&turn_), 0);
  // Another lock at the same place is another lock.
  turn_ = PTHREAD_MUTEX_INITIALIZER;
  ASSERT_EQ(lock_(&turn_), 0);
  EXPECT_FALSE(IsFree());
  ASSERT_EQ(unlock_(&turn_), 0);
  EXPECT_TRUE(IsFree());
}

// Goal: a client that reads nothing before its own requests are taken does not wait for ever: a
// worker whose reply finds no room lets another receive.
TEST_F(NbdkitTurnTest, IsGivenUpToAClientThatDoesNotRead) {
  std::atomic<bool> received = false;
  std::thread worker([&] {
    Receive(request_);
    received = true;
    const std::string data(8 << 20, 'd');
    for (size_t sent = 0; sent < data.size();) {
      const ssize_t now = send_(sockets_[0], data.data() + sent, data.size() - sent, MSG_NOSIGNAL);
      ASSERT_GT(now, 0);
      sent += static_cast<size_t>(now);
    }
  });
  while (!received) std::this_thread::yield();
  // Only once the turn is free does this client begin to read.
  ASSERT_EQ(pthread_mutex_lock(&turn_), 0);
  pthread_mutex_unlock(&turn_);
  std::string piece(1 << 16, '\0');
  for (size_t got = 0; got < size_t{8} << 20;) {
    const ssize_t now = recv(sockets_[1], piece.data(), piece.size(), 0);
    ASSERT_GT(now, 0);
    got += static_cast<size_t>(now);
  }
  worker.join();
}

// A worker that has kept its turn, and its replies.
class NbdkitRepliesTest : public NbdkitTurnTest {
 protected:
  static constexpr int kRepliesMax = 8;

  void Request(const std::string& request) {
    ASSERT_EQ(write(sockets_[1], request.data(), request.size()),
              static_cast<ssize_t>(request.size()));
  }
  // nbdkit sends every reply under the connection's lock for that.
  void Reply(const std::string& data = "") {
    ASSERT_EQ(lock_(&sending_), 0);
    EXPECT_EQ(Send(kReply, data.empty() ? 0 : MSG_MORE), 16);
    if (!data.empty()) {
      EXPECT_EQ(Send(data, 0), static_cast<ssize_t>(data.size()));
    }
    ASSERT_EQ(unlock_(&sending_), 0);
  }
  void Receive(size_t bytes = 28) {
    ASSERT_EQ(lock_(&turn_), 0);
    std::string request(bytes, '\0');
    EXPECT_EQ(read_(sockets_[0], request.data(), bytes), static_cast<ssize_t>(bytes));
    ASSERT_EQ(unlock_(&turn_), 0);
  }

  const std::string data_ = std::string(4096, 'd');
  pthread_mutex_t sending_ = PTHREAD_MUTEX_INITIALIZER;
};

TEST_F(NbdkitRepliesTest, WaitWhileTheNextRequestIsThere) {
  for (int i = 0; i < 3; ++i) Request(request_);
  Receive();
  Reply(data_);
  EXPECT_EQ(Arrived(), "");
  Receive();
  Reply();
  EXPECT_EQ(Arrived(), "");
  Receive();
  Reply(data_);
  EXPECT_EQ(Arrived(), "");
  may_block_();
  EXPECT_EQ(Arrived(), kReply + data_ + kReply + kReply + data_);
}

// Goal: no client waits for a reply while its worker waits for the client.
TEST_F(NbdkitRepliesTest, LeaveBeforeTheWorkerWaitsForARequest) {
  Request(request_);
  std::thread worker([&] {
    Receive();
    Reply(data_);
    Receive();
    may_block_();
  });
  std::string reply(kReply.size() + data_.size(), '\0');
  EXPECT_EQ(recv(sockets_[1], reply.data(), reply.size(), MSG_WAITALL),
            static_cast<ssize_t>(reply.size()));
  EXPECT_EQ(reply, kReply + data_);
  Request(request_);
  worker.join();
}

TEST_F(NbdkitRepliesTest, LeaveBeforeTheWorkerWaitsForAPayload) {
  Request(request_ + request_);
  std::thread worker([&] {
    Receive();
    Reply(data_);
    Receive();
    EXPECT_EQ(Arrived(), "");
    Receive(100);
    may_block_();
  });
  std::string reply(kReply.size() + data_.size(), '\0');
  EXPECT_EQ(recv(sockets_[1], reply.data(), reply.size(), MSG_WAITALL),
            static_cast<ssize_t>(reply.size()));
  Request(std::string(100, 'p'));
  worker.join();
}

TEST_F(NbdkitRepliesTest, AreNotTooMany) {
  for (int i = 0; i <= kRepliesMax; ++i) Request(request_);
  for (int i = 0; i <= kRepliesMax; ++i) {
    Receive();
    Reply();
  }
  EXPECT_EQ(Arrived().size(), kReply.size() * (kRepliesMax + 1));
  may_block_();
}

// Goal: what is large leaves without a copy, behind what was held.
TEST_F(NbdkitRepliesTest, LargeDataTakesThemAlong) {
  const std::string large(32 << 10, 'l');
  Request(request_);
  Request(request_);
  Receive();
  Reply(data_);
  Receive();
  Reply(large);
  EXPECT_EQ(Arrived(), kReply + data_ + kReply + large);
  may_block_();
}

TEST_F(NbdkitRepliesTest, LeaveWithTheTurnTheThreadAndTheConnection) {
  Request(request_);
  std::thread([&] {
    Receive();
    Reply();
  }).join();
  EXPECT_EQ(Arrived(), kReply);

  const std::string disconnect =
      std::string("\x25\x60\x95\x13\0\0\0\x02", 8) + std::string(20, '\0');
  Request(request_);
  Request(disconnect);
  Receive();
  Reply();
  Receive();
  EXPECT_EQ(Arrived(), kReply);
  may_block_();

  Request(request_);
  Receive();
  Reply();
  shutdown(sockets_[1], SHUT_WR);
  ASSERT_EQ(lock_(&turn_), 0);
  char byte = 0;
  EXPECT_EQ(read_(sockets_[0], &byte, 1), 0);
  ASSERT_EQ(unlock_(&turn_), 0);
  EXPECT_EQ(Arrived(), kReply);
}

// Goal: a worker that does not know when the next request comes holds nothing.
TEST_F(NbdkitRepliesTest, LeaveAtOnceWithoutTheTurn) {
  Request(request_);
  Receive();
  may_block_();
  Reply(data_);
  EXPECT_EQ(Arrived(), kReply + data_);
}

// Goal: replies of other workers stand before or behind held ones, never among their bytes.
TEST_F(NbdkitRepliesTest, LeaveUnderTheLockForSending) {
  Request(request_);
  std::atomic<bool> holds = false;
  std::atomic<bool> go = false;
  std::thread worker([&] {
    Receive();
    Reply(data_);
    holds = true;
    while (!go) std::this_thread::yield();
    may_block_();
  });
  while (!holds) std::this_thread::yield();
  // Another worker is in the middle of its reply while the turn is given up.
  ASSERT_EQ(pthread_mutex_lock(&sending_), 0);
  go = true;
  for (int i = 0; i < 1000; ++i) {
    std::this_thread::yield();
    ASSERT_EQ(Arrived(), "");
  }
  pthread_mutex_unlock(&sending_);
  worker.join();
  EXPECT_EQ(Arrived(), kReply + data_);
}

TEST_F(NbdkitRepliesTest, OfAClientThatIsGoneAreDropped) {
  Request(request_);
  Receive();
  Reply(data_);
  close(sockets_[1]);
  sockets_[1] = -1;
  may_block_();
  EXPECT_TRUE(IsFree());
}

// Goal: held replies find no room, and the client reads only once its next request is taken.
TEST_F(NbdkitRepliesTest, FindNoRoomAndGiveTheTurnUp) {
  const std::string filler(1 << 20, 'f');
  size_t filled = 0;
  for (ssize_t now = 0;
       (now = ::send(sockets_[0], filler.data(), filler.size(), MSG_DONTWAIT)) > 0;) {
    filled += static_cast<size_t>(now);
  }
  Request(request_);
  std::atomic<bool> received = false;
  std::thread worker([&] {
    Receive();
    received = true;
    Reply(data_);
    may_block_();
  });
  while (!received) std::this_thread::yield();
  ASSERT_EQ(pthread_mutex_lock(&turn_), 0);
  pthread_mutex_unlock(&turn_);
  std::string all(filled + kReply.size() + data_.size(), '\0');
  EXPECT_EQ(recv(sockets_[1], all.data(), all.size(), MSG_WAITALL),
            static_cast<ssize_t>(all.size()));
  EXPECT_EQ(all.substr(filled), kReply + data_);
  worker.join();
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
