// The control socket: one line to a real server, one line back, whatever it was.
#include <algorithm>
#include <cerrno>
#include <filesystem>

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/check.h"
#include "storage-backend/control/json_rpc_server.h"
#include "storage-backend/control/knob_json.h"
#include "tests/fuzz/fuzz_input.h"

namespace ebb::fuzz {
namespace {

using storage::RpcReply;

RpcReply SetKnobs(const std::string& params) {
  std::vector<std::string> faults;
  const storage::SetRequest request = storage::ParseSetRequest(params, faults);
  (void)request;
  return faults.empty() ? RpcReply::Result("true")
                        : RpcReply::Error(storage::kRpcBadParameters, faults.front());
}

class Session {
 public:
  Session() {
    folder_ = (std::filesystem::temp_directory_path() / "ebb_fuzz_XXXXXX").string();
    EBB_CHECK(mkdtemp(folder_.data()) != nullptr);
    auto server = storage::JsonRpcServer::Start(
        {.socket_path = folder_ + "/s"},
        {{"knobs.set", SetKnobs},
         {"echo", [](const std::string& params) { return RpcReply::Result(params); }}});
    EBB_CHECK(server.ok());
    server_ = *std::move(server);
    auto connected = storage::ConnectUnix(folder_ + "/s");
    EBB_CHECK(connected.ok());
    socket_ = *std::move(connected);
  }
  ~Session() {
    server_.reset();
    std::filesystem::remove_all(folder_);
  }

  std::string Ask(const std::string& line) {
    Require(send(socket_.get(), line.data(), line.size(), MSG_NOSIGNAL) ==
            static_cast<ssize_t>(line.size()));
    std::string reply;
    char bytes[4096];
    while (reply.empty() || reply.back() != '\n') {
      AwaitReply();
      const ssize_t got = recv(socket_.get(), bytes, sizeof bytes, 0);
      Require(got > 0);
      reply.append(bytes, static_cast<size_t>(got));
    }
    return reply;
  }

 private:
  // libFuzzer's own timer (SIGALRM, every -timeout/2 seconds) interrupts a poll.
  void AwaitReply() const {
    pollfd ready{.fd = socket_.get(), .events = POLLIN, .revents = 0};
    int count = 0;
    do {
      count = poll(&ready, 1, 10'000);
    } while (count < 0 && errno == EINTR);
    Require(count == 1);
  }

  std::string folder_;
  std::unique_ptr<storage::JsonRpcServer> server_;
  storage::ScopedFd socket_;
};

}  // namespace

void Run(Bytes input) {
  static Session session;
  const bool as_parameters = (TakeByte(input) & 1) != 0;
  std::string text = ToString(input.first(std::min<size_t>(input.size(), 4096)));
  std::ranges::replace(text, '\n', ' ');
  if (as_parameters) {
    text = R"({"jsonrpc":"2.0","id":1,"method":"knobs.set","params":)" + text + "}";
  }

  const std::string answer = session.Ask(text + "\n");

  Require(answer.starts_with('{') && answer.ends_with("}\n"));
  Require(answer.find(R"("jsonrpc":"2.0")") != std::string::npos);
  Require(std::ranges::count(answer, '\n') == 1);
}

}  // namespace ebb::fuzz
