// NbdTarget is a client's connection to an NBD export, asynchronous through libnbd.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "env/trace/block_target.h"

struct nbd_handle;

namespace ebb::env {

class NbdTarget final : public BlockTarget {
 public:
  // Connects to a URI such as "nbd+unix:///?socket=/run/ebb/nbd.sock" or "nbd://localhost:10809/".
  // InvalidArgument for a malformed URI, Unavailable when nobody answers.
  static absl::StatusOr<std::unique_ptr<NbdTarget>> Connect(const std::string& uri);
  // Disconnects; requests in flight are abandoned.
  ~NbdTarget() override;
  NbdTarget(const NbdTarget&) = delete;
  NbdTarget& operator=(const NbdTarget&) = delete;

  uint64_t size_bytes() const override { return size_bytes_; }
  uint64_t RequestBytesMax(trace::TraceOp op) const override;
  bool Supports(trace::TraceOp op) const override;
  absl::Status Submit(TargetRequest* request) override;
  absl::Status Wait(uint64_t deadline_ns, std::vector<TargetRequest*>* done) override;
  std::string Describe() const override { return uri_; }

 private:
  // What a completion needs; handed to libnbd and freed by its callback.
  struct Pending {
    NbdTarget* target;
    TargetRequest* request;
  };

  NbdTarget(std::string uri, nbd_handle* handle) : uri_(std::move(uri)), handle_(handle) {}

  static int OnDone(void* pending, int* error);
  static void Free(void* pending);
  absl::Status ReadTraits();
  // Lets libnbd read and write what the socket is ready for, until `deadline_ns` at most.
  absl::Status Step(uint64_t deadline_ns);

  const std::string uri_;
  nbd_handle* const handle_;
  uint64_t size_bytes_ = 0;
  uint64_t data_bytes_max_ = 0;
  bool writable_ = false;
  bool flush_ = false;
  bool trim_ = false;
  bool zero_ = false;
  bool fua_ = false;
  std::vector<TargetRequest*> done_;
};

}  // namespace ebb::env
