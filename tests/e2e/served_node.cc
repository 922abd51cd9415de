#include "tests/e2e/served_node.h"

#include <csignal>
#include <filesystem>

#include <libnbd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/units.h"
#include "storage-backend/control/durable_file.h"

namespace ebb::testing {
namespace {

constexpr uint64_t kStartNsMax = 120 * kNsPerS;
const char* const kNbdkit = "/usr/bin/nbdkit";
const char* const kPlugin = EBB_BINARY_DIR "/lib/nbdkit-ebb-plugin.so";

}  // namespace

ServedNode::ServedNode(const std::string& folder)
    : folder_(folder), control_(folder + "/control.sock") {
  config_.name = "test";
  config_.volume_bytes = 128 * kMiB;
  config_.control_socket = folder + "/control.sock";
  config_.state_dir = folder + "/state";
  config_.groups.resize(1);
  storage::GroupConfig& group = config_.groups[0];
  group.metadata_dir = folder + "/metadata";
  config_.nbd.socket = folder + "/nbd.sock";
  group.cache.path = folder + "/cache.img";
  group.cache.create_bytes = 64 * kMiB;
  for (const char* name : {"/capacity-1.img", "/capacity-2.img"}) {
    storage::DeviceConfig device;
    device.path = folder + name;
    device.create_bytes = 256 * kMiB;
    group.capacity.push_back(device);
  }
}

absl::Status ServedNode::Start() {
  const std::string config_path = folder_ + "/node.toml";
  absl::Status status = storage::WriteFileDurably(config_path, storage::FormatNodeConfig(config_));
  if (!status.ok()) return status;
  unlink(config_.nbd.socket.c_str());
  unlink(log_path().c_str());
  // Ends with the test, even when that is killed.
  process_ = std::make_unique<BackgroundProgram>(
      kNbdkit,
      std::vector<std::string>{"--foreground", "--exit-with-parent", "--threads", "16", "--unix",
                               config_.nbd.socket, kPlugin, "config=" + config_path},
      log_path());
  const uint64_t deadline_ns = RealClock().MonotonicNs() + kStartNsMax;
  while (RealClock().MonotonicNs() < deadline_ns) {
    if (!process_->IsRunning()) return absl::FailedPreconditionError(process_->Log());
    if (control_.Call("node.info").ok()) return absl::OkStatus();
    RealClock().SleepUntilNs(RealClock().MonotonicNs() + 5 * kNsPerMs);
  }
  return absl::DeadlineExceededError("not ready: " + process_->Log());
}

void ServedNode::Kill() {
  process_->Signal(SIGKILL);
  process_->Wait();
}

int ServedNode::Terminate() {
  process_->Signal(SIGTERM);
  return process_->Wait();
}

void NbdClose::operator()(nbd_handle* handle) const { nbd_close(handle); }

NbdHandle ConnectNbd(const std::string& uri) {
  NbdHandle handle(nbd_create());
  if (handle == nullptr || nbd_connect_uri(handle.get(), uri.c_str()) != 0) return nullptr;
  return handle;
}

}  // namespace ebb::testing
