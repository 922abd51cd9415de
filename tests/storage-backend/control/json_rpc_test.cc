// The wire: framing, limits, clients that misbehave, who may connect.
#include <algorithm>
#include <atomic>
#include <cstring>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "nlohmann/json.hpp"
#include "storage-backend/control/json_rpc_client.h"
#include "storage-backend/control/json_rpc_server.h"
#include "tests/storage-backend/control/scratch_dir.h"

namespace ebb::storage {
namespace {

using Json = nlohmann::json;
using testing::HasSubstr;

class JsonRpcTest : public testing::Test {
 protected:
  void SetUp() override { Serve({}); }

  void Serve(JsonRpcServerOptions options) {
    server_.reset();
    options.socket_path = scratch_.File("control.sock");
    std::map<std::string, RpcMethod, std::less<>> methods;
    methods["echo"] = [](const std::string& params) { return RpcReply::Result(params); };
    methods["big"] = [](const std::string&) {
      return RpcReply::Result('"' + std::string(1 << 20, 'x') + '"');
    };
    methods["refuse"] = [](const std::string&) {
      return RpcReply::Error(kRpcStaleVersion, "stale", R"({"version":7})");
    };
    methods["count"] = [this](const std::string&) {
      return RpcReply::Result(std::to_string(++count_));
    };
    absl::StatusOr<std::unique_ptr<JsonRpcServer>> server =
        JsonRpcServer::Start(options, std::move(methods));
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }

  std::string socket_path() const { return scratch_.File("control.sock"); }

  ScopedFd RawConnect() {
    absl::StatusOr<ScopedFd> fd = ConnectUnix(socket_path());
    EXPECT_TRUE(fd.ok()) << fd.status();
    return fd.ok() ? *std::move(fd) : ScopedFd();
  }

  // Sends `text` as it is and returns the first line of the answer; "" when the server hung up.
  static std::string Exchange(int fd, const std::string& text) {
    // The server may hang up in the middle of a line that is too long: it has answered by then.
    size_t done = 0;
    while (done < text.size()) {
      const ssize_t sent = send(fd, text.data() + done, text.size() - done, MSG_NOSIGNAL);
      if (sent <= 0) break;
      done += static_cast<size_t>(sent);
    }
    return ReadLine(fd);
  }

  static std::string ReadLine(int fd) {
    std::string line;
    char c = 0;
    while (recv(fd, &c, 1, 0) == 1) {
      if (c == '\n') return line;
      line += c;
    }
    return line;
  }

  static int CodeOf(const std::string& line) {
    const Json reply = Json::parse(line, nullptr, false);
    return reply.is_object() && reply.contains("error") ? reply["error"]["code"].get<int>() : 0;
  }

  int CodeFor(const std::string& text) { return CodeOf(Exchange(RawConnect().get(), text + "\n")); }

  ScratchDir scratch_;
  std::atomic<int> count_ = 0;
  std::unique_ptr<JsonRpcServer> server_;
};

TEST_F(JsonRpcTest, AnswersWithResultAndError) {
  JsonRpcClient client(socket_path());

  EXPECT_EQ(client.Call("echo", R"({"a":[1,"ü"]})").value(), R"({"a":[1,"ü"]})");
  EXPECT_EQ(client.Call("echo").value(), "{}");
  const absl::Status refused = client.Call("refuse").status();
  EXPECT_TRUE(absl::IsAborted(refused)) << refused;
  EXPECT_EQ(RpcErrorCode(refused), kRpcStaleVersion);
  EXPECT_EQ(RpcErrorData(refused), R"({"version":7})");
}

TEST_F(JsonRpcTest, UnknownMethodSuggestsTheNearest) {
  JsonRpcClient client(socket_path());

  const absl::Status status = client.Call("ecko").status();

  EXPECT_EQ(RpcErrorCode(status), kRpcUnknownMethod);
  EXPECT_THAT(std::string(status.message()), HasSubstr("did you mean echo?"));
}

TEST_F(JsonRpcTest, BadFramesGetTheirErrorCodeAndTheConnectionLives) {
  EXPECT_EQ(CodeFor("{"), kRpcParseError);
  EXPECT_EQ(CodeFor(""), kRpcParseError);
  EXPECT_EQ(CodeFor("{\"jsonrpc\":\"2.0\",\"id\":\"\xff\xfe\"}"), kRpcParseError);
  EXPECT_EQ(CodeFor("[]"), kRpcInvalidRequest);
  EXPECT_EQ(CodeFor("17"), kRpcInvalidRequest);
  EXPECT_EQ(CodeFor(R"({"id":1,"method":"echo"})"), kRpcInvalidRequest);
  EXPECT_EQ(CodeFor(R"({"jsonrpc":"2.0","method":"echo"})"), kRpcInvalidRequest);
  EXPECT_EQ(CodeFor(R"({"jsonrpc":"2.0","id":{},"method":"echo"})"), kRpcInvalidRequest);
  EXPECT_EQ(CodeFor(R"({"jsonrpc":"2.0","id":1,"method":3})"), kRpcInvalidRequest);
  EXPECT_EQ(CodeFor(R"({"jsonrpc":"2.0","id":1,"method":"echo","params":[1]})"), kRpcBadParameters);

  const ScopedFd fd = RawConnect();
  EXPECT_EQ(CodeOf(Exchange(fd.get(), "no json\n")), kRpcParseError);
  EXPECT_EQ(CodeOf(Exchange(fd.get(), R"({"jsonrpc":"2.0","id":1,"method":"echo"})"
                                      "\n")),
            0);
}

TEST_F(JsonRpcTest, DeepNestingIsRefusedBeforeItIsParsed) {
  const std::string deep(400'000, '[');
  const std::string legal = std::string(30, '[') + std::string(30, ']');

  EXPECT_EQ(CodeFor(deep), kRpcParseError);
  EXPECT_EQ(CodeFor(R"({"jsonrpc":"2.0","id":1,"method":"echo","params":{"a":)" + legal + "}}"), 0);
  // Brackets inside of a string are no nesting.
  EXPECT_EQ(
      CodeFor(R"({"jsonrpc":"2.0","id":1,"method":"echo","params":{"a":"\")" + deep + R"("}})"), 0);
}

TEST_F(JsonRpcTest, LineBeyondTheLimitIsAnErrorAndEndsTheConnection) {
  const ScopedFd fd = RawConnect();

  const std::string reply = Exchange(fd.get(), std::string(kRpcRequestBytesMax + 70'000, 'x'));

  EXPECT_EQ(CodeOf(reply), kRpcInvalidRequest);
  EXPECT_EQ(ReadLine(fd.get()), "");
  EXPECT_TRUE(JsonRpcClient(socket_path()).Call("echo").ok());
}

TEST_F(JsonRpcTest, PipelinedRequestsAreAnsweredInOrder) {
  const ScopedFd fd = RawConnect();
  std::string requests;
  for (int i = 0; i < 500; ++i) {
    requests += R"({"jsonrpc":"2.0","id":)" + std::to_string(i) + R"(,"method":"count"})" + "\n";
  }

  std::string line = Exchange(fd.get(), requests);

  for (int i = 0; i < 500; ++i) {
    const Json reply = Json::parse(line);
    ASSERT_EQ(reply["id"], i);
    ASSERT_EQ(reply["result"], i + 1);
    if (i < 499) line = ReadLine(fd.get());
  }
}

// Goal: a client that asks for much and reads nothing costs bounded memory and delays nobody.
// Method: ask for 200 answers of 1 MiB unread; count how many the server made; ask as another.
TEST_F(JsonRpcTest, ClientThatDoesNotReadHoldsUpNobody) {
  const ScopedFd slow = RawConnect();
  std::string requests;
  for (int i = 0; i < 200; ++i) {
    requests += R"({"jsonrpc":"2.0","id":1,"method":"big"})"
                "\n"
                R"({"jsonrpc":"2.0","id":1,"method":"count"})"
                "\n";
  }
  ASSERT_EQ(send(slow.get(), requests.data(), requests.size(), MSG_NOSIGNAL),
            static_cast<ssize_t>(requests.size()));

  JsonRpcClient other(socket_path());
  ASSERT_TRUE(other.Call("echo").ok());
  ASSERT_TRUE(other.Call("echo").ok());
  EXPECT_LE(count_, 12);

  // Once it reads, it gets all the rest.
  std::vector<char> chunk(1 << 20);
  std::ptrdiff_t lines = 0;
  while (lines < 400) {
    const ssize_t got = recv(slow.get(), chunk.data(), chunk.size(), 0);
    ASSERT_GT(got, 0);
    lines += std::count(chunk.begin(), chunk.begin() + got, '\n');
  }
  EXPECT_EQ(lines, 400);
  EXPECT_EQ(count_, 200);
}

TEST_F(JsonRpcTest, StalledClientIsCutOff) {
  JsonRpcServerOptions options;
  options.stall_ns_max = 1;
  Serve(options);
  const ScopedFd slow = RawConnect();
  const std::string request = R"({"jsonrpc":"2.0","id":1,"method":"big"})"
                              "\n";
  ASSERT_GT(send(slow.get(), request.data(), request.size(), MSG_NOSIGNAL), 0);

  // The server hangs up before all of the 1 MiB came through.
  pollfd hung_up{slow.get(), POLLRDHUP, 0};
  ASSERT_EQ(poll(&hung_up, 1, 20'000), 1);
  EXPECT_LT(ReadLine(slow.get()).size(), size_t{1} << 20);
}

TEST_F(JsonRpcTest, ClientsBeyondTheBoundAreToldAndTurnedAway) {
  JsonRpcServerOptions options;
  options.clients_max = 2;
  Serve(options);
  JsonRpcClient first(socket_path());
  JsonRpcClient second(socket_path());
  JsonRpcClient third(socket_path());
  ASSERT_TRUE(first.Call("echo").ok());
  ASSERT_TRUE(second.Call("echo").ok());

  const absl::Status status = third.Call("echo").status();

  EXPECT_THAT(std::string(status.message()), HasSubstr("2 clients are connected already"));
  EXPECT_TRUE(first.Call("echo").ok());
}

TEST_F(JsonRpcTest, SocketIsPrivateAndLockFileToo) {
  struct stat info {};
  ASSERT_EQ(stat(socket_path().c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600U);
  ASSERT_EQ(stat((socket_path() + ".lock").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600U);
}

TEST_F(JsonRpcTest, LiveSocketIsRefusedAndStaleOneReplaced) {
  const absl::Status live = JsonRpcServer::Start({.socket_path = socket_path()}, {}).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(live)) << live;
  EXPECT_THAT(std::string(live.message()), HasSubstr("already listens"));
  EXPECT_TRUE(JsonRpcClient(socket_path()).Call("echo").ok());

  server_.reset();
  EXPECT_NE(access(socket_path().c_str(), F_OK), 0) << "a stopped server leaves no socket";
  // What a killed process leaves: a bound socket file that nobody listens on.
  {
    const ScopedFd dead(socket(AF_UNIX, SOCK_STREAM, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strcpy(address.sun_path, socket_path().c_str());
    ASSERT_EQ(bind(dead.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  }
  Serve({});
  EXPECT_TRUE(JsonRpcClient(socket_path()).Call("echo").ok());
}

TEST_F(JsonRpcTest, FileThatIsNoSocketIsLeftUntouched) {
  server_.reset();
  std::ofstream(socket_path()) << "mine";

  const absl::Status status = JsonRpcServer::Start({.socket_path = socket_path()}, {}).status();

  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  std::string content;
  std::ifstream(socket_path()) >> content;
  EXPECT_EQ(content, "mine");
}

TEST_F(JsonRpcTest, PathTooLongForASocketIsSaid) {
  const absl::Status status =
      JsonRpcServer::Start({.socket_path = scratch_.File(std::string(120, 'x'))}, {}).status();

  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
}

TEST_F(JsonRpcTest, ClientSaysWhenNobodyListens) {
  server_.reset();

  const absl::Status status = JsonRpcClient(socket_path()).Call("echo").status();

  EXPECT_TRUE(absl::IsUnavailable(status));
  EXPECT_EQ(std::string(status.message()),
            "no node listens at " + socket_path() + ": is it started?");
}

TEST_F(JsonRpcTest, ClientFindsTheServerAgainAfterARestart) {
  JsonRpcClient client(socket_path());
  ASSERT_TRUE(client.Call("echo").ok());

  Serve({});

  EXPECT_TRUE(client.Call("echo").ok());
}

TEST_F(JsonRpcTest, ClientGivesUpAfterItsTimeout) {
  absl::StatusOr<UnixListener> mute = UnixListener::Open(scratch_.File("mute.sock"));
  ASSERT_TRUE(mute.ok());
  JsonRpcClient client(scratch_.File("mute.sock"), /*timeout_ns=*/20 * kNsPerMs);

  EXPECT_TRUE(absl::IsDeadlineExceeded(client.Call("echo").status()));
}

// Runs `body` as user 65534 in a child process and returns its exit code.
int AsNobody(const std::function<int()>& body) {
  const pid_t child = fork();
  if (child == 0) _exit(setuid(65534) == 0 ? body() : 99);
  int state = 0;
  waitpid(child, &state, 0);
  return WIFEXITED(state) ? WEXITSTATUS(state) : 98;
}

// Goal: the two walls against other users, each on its own. Method: connect as nobody, first with
// the socket as it is, then with its mode opened by hand, so that only the peer check is left.
TEST_F(JsonRpcTest, ForeignUserIsKeptOutByModeAndByPeerCheck) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root to become another user";
  ASSERT_EQ(chmod(scratch_.path().c_str(), 0755), 0);
  const auto call = [this] {
    const absl::Status status = JsonRpcClient(socket_path()).Call("count").status();
    if (RpcErrorCode(status) == kRpcForeignUser) return 2;
    return absl::IsPermissionDenied(status) ? 1 : 0;
  };

  EXPECT_EQ(AsNobody(call), 1);
  ASSERT_EQ(chmod(socket_path().c_str(), 0666), 0);
  EXPECT_EQ(AsNobody(call), 2);
  EXPECT_EQ(count_, 0) << "a foreign request was carried out";
  EXPECT_TRUE(JsonRpcClient(socket_path()).Call("echo").ok());
}

}  // namespace
}  // namespace ebb::storage
