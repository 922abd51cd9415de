// The nbdkit plugin: NBD's verbs handed to a NodeServer, and nothing else.
//
// usage: nbdkit ./nbdkit-ebb-plugin.so config=node.toml [record=trace.ebbt]
//
// One node a process; every connection sees the same volume, so a flush on one covers writes on all
// (can_multi_conn). The node is opened after nbdkit's fork, because it starts threads, and closed
// when the last connection has ended.
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <exception>
#include <memory>
#include <span>
#include <string>

#include <dlfcn.h>

#include "base/may_block.h"
#include "base/status.h"
#include "base/trace/trace_recorder.h"
#include "base/units.h"
#include "storage-backend/control/node_config.h"
#include "storage-backend/control/node_open.h"
#include "storage-backend/control/node_server.h"
#include "storage-backend/nbd/graceful_stop.h"
#include "storage-backend/nbd/outlive_parent.h"

#define NBDKIT_API_VERSION 2
#include <nbdkit-plugin.h>

#define THREAD_MODEL NBDKIT_THREAD_MODEL_PARALLEL

namespace ebb::storage {
namespace {

constexpr uint32_t kRequestBytesMax = 32U << 20;
constexpr double kProgressStep = 0.1;

std::string config_path;  // NOLINT: set by one thread before any other starts
std::string record_path;  // NOLINT: likewise
std::unique_ptr<trace::TraceRecorder> recorder;  // NOLINT: likewise
NodeConfig node_config;                          // NOLINT: likewise
std::unique_ptr<GracefulStop> stop;              // NOLINT: likewise
std::unique_ptr<NodeServer> node;                // NOLINT: likewise, gone after the last connection
std::atomic<const NodeServer*> live_node = nullptr;  // NOLINT: `node`, for the stop thread

// Tells nbdkit of a failure; -1 as its callbacks return it.
int Fail(const absl::Status& status) {
  const std::string message(status.message());
  nbdkit_error("%s", message.c_str());
  nbdkit_set_error(StatusToErrno(status));
  return -1;
}

// Runs `verb` and keeps every exception on this side of the C interface.
template <typename Verb>
int Guarded(Verb verb) {
  try {
    const absl::Status status = verb();
    return status.ok() ? 0 : Fail(status);
  } catch (const std::exception& fault) {
    return Fail(absl::InternalError(fault.what()));
  }
}

int Config(const char* key, const char* value) {
  const std::string name = key;
  if (name == "config") {
    config_path = value;
  } else if (name == "record") {
    record_path = value;
  } else {
    nbdkit_error("unknown parameter %s: this plugin takes config=FILE and record=FILE", key);
    return -1;
  }
  return 0;
}

int ConfigComplete() {
  if (config_path.empty()) {
    nbdkit_error("config=FILE is missing: the node's TOML file");
    return -1;
  }
  return Guarded([] {
    EBB_ASSIGN_OR_RETURN(node_config, LoadNodeConfig(config_path));
    return absl::OkStatus();
  });
}

int AfterFork() {
  return Guarded([]() -> absl::Status {
    OutliveParent();
    // With the shim preloaded, the worker that is about to wait lets another go on.
    SetMayBlockHook(reinterpret_cast<MayBlockHook>(dlsym(RTLD_DEFAULT, "ebb_nbdkit_may_block")));
    EBB_ASSIGN_OR_RETURN(stop, GracefulStop::Install([] {
                           const NodeServer* serving = live_node;
                           return serving == nullptr
                                      ? GracefulStop::Activity()
                                      : GracefulStop::Activity{serving->requests_begun(),
                                                               serving->requests_in_flight()};
                         }));
    NodeServerOptions options;
    options.on_stop = [] { stop->Begin(); };
    options.recovery_progress = [told = 0.0](double share) mutable {
      if (share < told + kProgressStep || share >= 1) return;
      told = share;
      std::fprintf(stderr, "ebb: recovering: %.0f %%\n", share * 100);
    };
    if (!record_path.empty()) {
      EBB_ASSIGN_OR_RETURN(recorder,
                           trace::TraceRecorder::Create(record_path, node_config.volume_bytes,
                                                        "requests to node " + node_config.name));
      options.observer = [](const StreamRecord& request, std::span<const std::byte> data) {
        recorder->Record(static_cast<trace::TraceOp>(request.op), request.fua, request.offset,
                         request.bytes, data);
      };
    }
    absl::StatusOr<std::unique_ptr<NodeServer>> opened = OpenNode(node_config, std::move(options));
    if (!opened.ok()) return opened.status();
    node = *std::move(opened);
    live_node = node.get();
    return absl::OkStatus();
  });
}

// The last connection has ended.
void Cleanup() {
  if (node != nullptr) {
    Guarded([] { return Annotate(node->Close(), "the node could not be closed cleanly"); });
  }
  // The control thread may ask for a stop, and the stop thread for the node, until here.
  live_node = nullptr;
  stop.reset();
  node.reset();
  if (recorder == nullptr) return;
  Guarded([] { return Annotate(recorder->Close(), "the trace is not whole"); });
  recorder.reset();
}

void* Open(int /*readonly*/) { return NBDKIT_HANDLE_NOT_NEEDED; }
int64_t GetSize(void*) { return static_cast<int64_t>(node->volume_bytes()); }
int Yes(void*) { return 1; }
int No(void*) { return 0; }
int CanFua(void*) { return NBDKIT_FUA_NATIVE; }

// Any byte range works; whole 4 KiB blocks spare the node a read.
int BlockSize(void*, uint32_t* minimum, uint32_t* preferred, uint32_t* maximum) {
  *minimum = 1;
  *preferred = kBlockBytes;
  *maximum = kRequestBytesMax;
  return 0;
}

int Read(void*, void* buffer, uint32_t bytes, uint64_t offset, uint32_t /*flags*/) {
  return Guarded([&] {
    return node->Read(offset, std::span(static_cast<std::byte*>(buffer), size_t{bytes}));
  });
}

int Write(void*, const void* buffer, uint32_t bytes, uint64_t offset, uint32_t flags) {
  return Guarded([&] {
    return node->Write(offset, std::span(static_cast<const std::byte*>(buffer), size_t{bytes}),
                       (flags & NBDKIT_FLAG_FUA) != 0);
  });
}

int Flush(void*, uint32_t /*flags*/) {
  return Guarded([] { return node->Flush(); });
}

int Trim(void*, uint32_t bytes, uint64_t offset, uint32_t flags) {
  return Guarded([&] { return node->Trim(offset, bytes, (flags & NBDKIT_FLAG_FUA) != 0); });
}

int Zero(void*, uint32_t bytes, uint64_t offset, uint32_t flags) {
  return Guarded([&] { return node->WriteZeroes(offset, bytes, (flags & NBDKIT_FLAG_FUA) != 0); });
}

nbdkit_plugin MakePlugin() {
  nbdkit_plugin plugin{};
  plugin.name = "ebb";
  plugin.longname = "Ebb two-tier store";
  plugin.version = EBB_VERSION;
  plugin.description = "A write-back cache over capacity devices that can be tuned while it runs";
  plugin.config_help =
      "config=FILE    (required) The node's TOML file; see `ebb node start --help`.";
  plugin.magic_config_key = "config";
  plugin.config = Config;
  plugin.config_complete = ConfigComplete;
  plugin.after_fork = AfterFork;
  plugin.cleanup = Cleanup;
  plugin.unload = Cleanup;  // when serving never began
  plugin.open = Open;
  plugin.get_size = GetSize;
  plugin.can_write = Yes;
  plugin.can_flush = Yes;
  plugin.is_rotational = No;
  plugin.can_trim = Yes;
  plugin.can_zero = Yes;
  plugin.can_fast_zero = Yes;
  plugin.can_fua = CanFua;
  plugin.can_multi_conn = Yes;
  plugin.block_size = BlockSize;
  plugin.pread = Read;
  plugin.pwrite = Write;
  plugin.flush = Flush;
  plugin.trim = Trim;
  plugin.zero = Zero;
  return plugin;
}

nbdkit_plugin plugin = MakePlugin();  // NOLINT: nbdkit fills in its version fields

}  // namespace
}  // namespace ebb::storage

NBDKIT_REGISTER_PLUGIN(ebb::storage::plugin)
