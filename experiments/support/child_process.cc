#include "experiments/support/child_process.h"

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <utility>

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/status.h"
#include "base/units.h"
#include "fmt/format.h"

namespace ebb::experiments {
namespace {

constexpr uint64_t kPollNs = 20 * kNsPerMs;
constexpr int kExecFailed = 127;
constexpr int64_t kTailBytes = 800;

std::vector<char*> Pointers(std::vector<std::string>& command) {
  std::vector<char*> pointers;
  for (std::string& word : command) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  return pointers;
}

struct Streams {
  int out;
  int err;
};

// In the child, between fork and exec: calls that are safe there only.
[[noreturn]] void Become(char* const* arguments, const Streams& streams, pid_t parent,
                         bool die_with_parent) {
  setpgid(0, 0);
  if (die_with_parent) {
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != parent) _exit(kExecFailed);  // the experiment ended before the line above
  }
  const int in = open("/dev/null", O_RDONLY | O_CLOEXEC);
  dup2(in, STDIN_FILENO);
  dup2(streams.out, STDOUT_FILENO);
  dup2(streams.err, STDERR_FILENO);
  signal(SIGINT, SIG_DFL);
  signal(SIGTERM, SIG_DFL);
  execvp(arguments[0], arguments);
  constexpr char kMessage[] = "cannot be started\n";
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, kMessage, sizeof kMessage - 1);
  _exit(kExecFailed);
}

absl::StatusOr<int> OpenLog(const std::string& path, int flags) {
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | flags, 0600);
  if (fd < 0) return ErrnoStatus(errno, fmt::format("open {}", path));
  return fd;
}

absl::StatusOr<pid_t> Spawn(std::vector<std::string> command, const Streams& streams,
                            bool die_with_parent) {
  const std::vector<char*> arguments = Pointers(command);
  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid < 0) return ErrnoStatus(errno, fmt::format("start {}", command[0]));
  if (pid == 0) Become(arguments.data(), streams, parent, die_with_parent);
  setpgid(pid, pid);  // also here: whichever comes first
  return pid;
}

std::string ReadFrom(const std::string& path, int64_t start) {
  std::ifstream file(path);
  file.seekg(start);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

}  // namespace

absl::StatusOr<std::unique_ptr<ChildProcess>> ChildProcess::Start(std::vector<std::string> command,
                                                                  const std::string& log_path,
                                                                  bool die_with_parent) {
  EBB_ASSIGN_OR_RETURN(const int log, OpenLog(log_path, O_APPEND));
  struct stat status = {};
  const int64_t log_start = fstat(log, &status) == 0 ? status.st_size : 0;
  std::string name = std::filesystem::path(command[0]).filename();
  absl::StatusOr<pid_t> pid = Spawn(std::move(command), {log, log}, die_with_parent);
  close(log);
  if (!pid.ok()) return pid.status();
  return std::unique_ptr<ChildProcess>(
      new ChildProcess(*pid, std::move(name), log_path, log_start));
}

std::unique_ptr<ChildProcess> ChildProcess::Adopt(pid_t pid, std::string name,
                                                  std::string log_path) {
  return std::unique_ptr<ChildProcess>(
      new ChildProcess(pid, std::move(name), std::move(log_path), 0));
}

ChildProcess::~ChildProcess() { Stop(); }

bool ChildProcess::IsRunning() {
  if (ended_) return false;
  const pid_t waited = waitpid(pid_, &wait_status_, WNOHANG);
  ended_ = waited == pid_ || (waited < 0 && errno == ECHILD);
  return !ended_;
}

absl::Status ChildProcess::Wait(uint64_t timeout_ms, const std::atomic<bool>* stop) {
  Clock& clock = RealClock();
  const uint64_t deadline_ns = clock.MonotonicNs() + timeout_ms * kNsPerMs;
  while (IsRunning()) {
    if (stop != nullptr && stop->load()) return absl::CancelledError("interrupted");
    const uint64_t now_ns = clock.MonotonicNs();
    if (now_ns >= deadline_ns) {
      return absl::DeadlineExceededError(fmt::format("{} still runs", name_));
    }
    clock.SleepUntilNs(now_ns + kPollNs);
  }
  if (WIFEXITED(wait_status_) && WEXITSTATUS(wait_status_) == 0) return absl::OkStatus();
  const std::string how = WIFSIGNALED(wait_status_)
                              ? fmt::format("was ended by signal {}", WTERMSIG(wait_status_))
                              : fmt::format("ended with exit code {}", WEXITSTATUS(wait_status_));
  return absl::InternalError(fmt::format("{} {}: {}", name_, how, LogTail()));
}

void ChildProcess::Stop(uint64_t grace_ms) {
  if (!IsRunning()) return;
  kill(-pid_, SIGTERM);
  if (Wait(grace_ms).code() != absl::StatusCode::kDeadlineExceeded) return;
  kill(-pid_, SIGKILL);
  waitpid(pid_, &wait_status_, 0);
  ended_ = true;
}

std::string ChildProcess::LogTail() const {
  std::string text = ReadFrom(log_path_, log_start_);
  if (static_cast<int64_t>(text.size()) > kTailBytes) {
    text = "..." + text.substr(text.size() - static_cast<size_t>(kTailBytes));
  }
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text.empty() ? "it said nothing" : text;
}

absl::StatusOr<std::string> RunAndRead(const std::vector<std::string>& command,
                                       const std::string& scratch_dir, uint64_t timeout_ms) {
  const std::string out_path = scratch_dir + "/command.out";
  const std::string err_path = scratch_dir + "/command.err";
  EBB_ASSIGN_OR_RETURN(const int out, OpenLog(out_path, O_TRUNC));
  absl::StatusOr<int> err = OpenLog(err_path, O_TRUNC);
  if (!err.ok()) {
    close(out);
    return err.status();
  }
  absl::StatusOr<pid_t> pid = Spawn(command, {out, *err}, /*die_with_parent=*/true);
  close(out);
  close(*err);
  if (!pid.ok()) return pid.status();
  const std::unique_ptr<ChildProcess> process =
      ChildProcess::Adopt(*pid, std::filesystem::path(command[0]).filename(), err_path);
  EBB_RETURN_IF_ERROR(process->Wait(timeout_ms));
  return ReadFrom(out_path, 0);
}

}  // namespace ebb::experiments
