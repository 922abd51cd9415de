#include "api/cli/node_process.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string_view>

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "api/cli/restart_policy.h"
#include "base/clock.h"
#include "base/status.h"
#include "base/units.h"
#include "fmt/format.h"
#include "storage-backend/control/scoped_fd.h"
#include "storage-backend/control/unix_socket.h"

#ifndef EBB_PLUGIN_INSTALL_DIR
#error "the build defines EBB_PLUGIN_INSTALL_DIR"
#endif

namespace ebb::cli {
namespace {

using storage::ScopedFd;

constexpr const char* kPluginFile = "nbdkit-ebb-plugin.so";
constexpr const char* kShimFile = "ebb-nbdkit-shim.so";
constexpr uint64_t kRestartPauseNs = 200 * kNsPerMs;
constexpr uint64_t kPollNs = 30 * kNsPerMs;
constexpr std::string_view kProgressMark = "ebb: ";

bool IsExecutable(const std::string& path) {
  return access(path.c_str(), X_OK) == 0 && !std::filesystem::is_directory(path);
}

absl::StatusOr<std::string> FindInPath(const std::string& program) {
  const char* path = std::getenv("PATH");
  std::istringstream folders(path == nullptr ? "/usr/bin:/bin" : path);
  for (std::string folder; std::getline(folders, folder, ':');) {
    if (!folder.empty() && IsExecutable(folder + "/" + program)) return folder + "/" + program;
  }
  return absl::UnavailableError(
      fmt::format("{0} is not installed (apt install {0}), or not in PATH", program));
}

// Beside the build's programs, where it is installed, or where EBB_NBD_PLUGIN says.
absl::StatusOr<std::string> FindPlugin() {
  if (const char* chosen = std::getenv("EBB_NBD_PLUGIN")) return std::string(chosen);
  std::error_code error;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", error);
  std::vector<std::string> places = {std::string(EBB_PLUGIN_INSTALL_DIR) + "/" + kPluginFile};
  if (!error) {
    const std::filesystem::path prefix = self.parent_path().parent_path();
    places.insert(places.begin(), (prefix / "lib" / kPluginFile).string());
    places.insert(places.begin() + 1,
                  (prefix / "lib" / "nbdkit" / "plugins" / kPluginFile).string());
  }
  for (const std::string& place : places) {
    if (access(place.c_str(), R_OK) == 0) return place;
  }
  return absl::UnavailableError(fmt::format(
      "the nbdkit plugin was not found at {}; set EBB_NBD_PLUGIN", fmt::join(places, ", ")));
}

[[noreturn]] void Exec(const NodeCommand& command) {
  std::vector<char*> argv;
  std::string program = command.nbdkit;
  argv.push_back(program.data());
  std::vector<std::string> arguments = command.arguments;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  if (!command.preload.empty()) {
    // Behind what is there: a sanitizer's run-time wants to be first.
    const char* before = std::getenv("LD_PRELOAD");
    const std::string preload =
        before == nullptr ? command.preload : std::string(before) + ":" + command.preload;
    setenv("LD_PRELOAD", preload.c_str(), /*overwrite=*/1);
  }
  execv(command.nbdkit.c_str(), argv.data());
  _exit(127);
}

// Runs the node, and again when it crashes; ends as it ended.
[[noreturn]] void Supervise(const NodeCommand& command) {
  RestartPolicy policy;
  while (true) {
    const pid_t node = fork();
    if (node < 0) _exit(127);
    if (node == 0) Exec(command);
    int state = 0;
    while (waitpid(node, &state, 0) < 0 && errno == EINTR) {
    }
    if (!policy.StartsAgain(state, RealClock().MonotonicNs())) {
      _exit(WIFEXITED(state) ? WEXITSTATUS(state) : 128 + WTERMSIG(state));
    }
    fmt::print(stderr, "ebb: the node crashed ({}) and is started again\n",
               strsignal(WTERMSIG(state)));
    RealClock().SleepUntilNs(RealClock().MonotonicNs() + kRestartPauseNs);
    // nbdkit refuses to listen where a socket is.
    if (!command.nbd_socket.empty()) unlink(command.nbd_socket.c_str());
  }
}

// nbdkit's sentence without its name, plugin and the word error.
std::string ErrorSentence(const std::string& log) {
  std::istringstream lines(log);
  std::string sentence;
  for (std::string line; std::getline(lines, line);) {
    if (line.rfind("nbdkit: ", 0) == 0) {
      const size_t error = line.find("error: ");
      line = error == std::string::npos ? line.substr(8) : line.substr(error + 7);
    } else if (line.rfind(kProgressMark, 0) == 0) {
      continue;
    } else if (!sentence.empty()) {
      line = "\n" + line;  // the node's own message went on
      sentence += line;
      continue;
    }
    if (sentence.empty()) sentence = line;
  }
  return sentence;
}

std::string LastProgress(const std::string& log) {
  const size_t mark = log.rfind(kProgressMark);
  if (mark == std::string::npos) return "";
  const size_t begin = mark + kProgressMark.size();
  return log.substr(begin, log.find('\n', begin) - begin);
}

}  // namespace

absl::StatusOr<NodeCommand> MakeNodeCommand(const storage::NodeConfig& config,
                                            const std::string& config_path,
                                            const std::string& record_path) {
  NodeCommand command;
  EBB_ASSIGN_OR_RETURN(command.nbdkit, FindInPath("nbdkit"));
  EBB_ASSIGN_OR_RETURN(const std::string plugin, FindPlugin());
  // Beside the plugin, wherever that is.
  command.preload = std::filesystem::path(plugin).replace_filename(kShimFile).string();
  if (access(command.preload.c_str(), R_OK) != 0) command.preload.clear();
  command.nbd_socket = config.nbd.socket;
  // The plugin tells no extents, so structured replies would only cost a system call a read
  // (docs/adr/0004-nbd-front-end.md).
  command.arguments = {"--foreground", "--no-sr", "--threads", std::to_string(config.nbd.threads)};
  const std::vector<std::string> listen =
      config.nbd.socket.empty() ? std::vector<std::string>{"--ipaddr", config.nbd.address, "--port",
                                                           std::to_string(config.nbd.port)}
                                : std::vector<std::string>{"--unix", config.nbd.socket};
  command.arguments.insert(command.arguments.end(), listen.begin(), listen.end());
  command.arguments.push_back(plugin);
  command.arguments.push_back("config=" + config_path);
  if (!record_path.empty()) command.arguments.push_back("record=" + record_path);
  return command;
}

absl::Status ClearNbdSocket(const storage::NbdConfig& nbd) {
  struct stat info {};
  if (nbd.socket.empty() || lstat(nbd.socket.c_str(), &info) != 0) return absl::OkStatus();
  if (!S_ISSOCK(info.st_mode)) {
    return absl::FailedPreconditionError(
        fmt::format("{} exists and is not a socket: it was left untouched", nbd.socket));
  }
  const absl::StatusOr<ScopedFd> probe = storage::ConnectUnix(nbd.socket);
  if (!absl::IsUnavailable(probe.status())) {
    return absl::FailedPreconditionError(
        fmt::format("another process serves NBD at {}", nbd.socket));
  }
  if (unlink(nbd.socket.c_str()) != 0) return ErrnoStatus(errno, nbd.socket);
  return absl::OkStatus();
}

absl::StatusOr<NodeProcess> NodeProcess::Start(const NodeCommand& command,
                                               const std::string& log_path) {
  const ScopedFd log(open(log_path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
  if (!log.valid()) return ErrnoStatus(errno, fmt::format("cannot write the log {}", log_path));
  struct stat info {};
  if (fstat(log.get(), &info) != 0) return ErrnoStatus(errno, log_path);
  const ScopedFd null(open("/dev/null", O_RDONLY | O_CLOEXEC));
  const pid_t pid = fork();
  if (pid < 0) return ErrnoStatus(errno, "fork");
  if (pid == 0) {
    setsid();
    umask(077);  // nbdkit makes its socket by it: only this user may connect
    if (dup2(null.get(), 0) < 0 || dup2(log.get(), 1) < 0 || dup2(log.get(), 2) < 0) _exit(127);
    if (chdir("/") != 0) _exit(127);
    Supervise(command);
  }
  return NodeProcess(pid, log_path, static_cast<uint64_t>(info.st_size));
}

// The supervisor leads the session in which it runs the node.
bool NodeProcess::Owns(pid_t pid) const { return pid > 0 && getsid(pid) == pid_; }

std::string NodeProcess::LogText() const {
  std::ifstream file(log_path_, std::ios::binary);
  file.seekg(static_cast<std::streamoff>(log_begin_));
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

absl::Status NodeProcess::WaitReady(const std::function<bool()>& is_ready, uint64_t timeout_ns,
                                    const std::function<void(const std::string&)>& progress) {
  const uint64_t deadline_ns = RealClock().MonotonicNs() + timeout_ns;
  while (!is_ready()) {
    int state = 0;
    if (waitpid(pid_, &state, WNOHANG) == pid_) {
      const std::string sentence = ErrorSentence(LogText());
      return absl::FailedPreconditionError(
          sentence.empty() ? fmt::format("the node ended at once; its log is {}", log_path_)
                           : sentence);
    }
    if (RealClock().MonotonicNs() >= deadline_ns) {
      return absl::DeadlineExceededError(
          fmt::format("the node (pid {}) is not ready after {} and starts on; its log is {}", pid_,
                      FormatDurationNs(timeout_ns), log_path_));
    }
    progress(LastProgress(LogText()));
    RealClock().SleepUntilNs(RealClock().MonotonicNs() + kPollNs);
  }
  return absl::OkStatus();
}

absl::Status ExecNode(const NodeCommand& command) {
  umask(077);
  const ScopedFd null(open("/dev/null", O_RDONLY | O_CLOEXEC));
  dup2(null.get(), 0);
  Exec(command);
}

absl::StatusOr<bool> WaitForExit(pid_t pid, uint64_t timeout_ns,
                                 const std::function<void(double)>& progress) {
  const ScopedFd process(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
  if (!process.valid()) {
    if (errno == ESRCH) return true;
    return ErrnoStatus(errno, fmt::format("cannot watch process {}", pid));
  }
  const uint64_t begin_ns = RealClock().MonotonicNs();
  while (true) {
    pollfd waiting{process.get(), POLLIN, 0};
    if (poll(&waiting, 1, 200) > 0) return true;
    const uint64_t passed_ns = RealClock().MonotonicNs() - begin_ns;
    if (passed_ns >= timeout_ns) return false;
    progress(static_cast<double>(passed_ns) / static_cast<double>(kNsPerS));
  }
}

}  // namespace ebb::cli
