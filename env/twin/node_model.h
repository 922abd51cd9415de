// NodeModel: everything the twin must know of a node besides its knobs: devices, processor, costs.
//
// Times are those of an idle machine; waiting for each other is what the simulation adds. The
// defaults are what this repository's benches measured on a 2-core virtual machine (ADR 0008 names
// each figure's source); `ebb twin fit` replaces them by what it measures.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "base/units.h"
#include "storage-backend/device/service_parameters.h"

namespace ebb::twin {

// Processor time in ns. Codec figures are ns a byte of input.
struct CpuCosts {
  double nbd_request = 9'000;         // receive, dispatch and answer one request
  double read_request = 500;          // the engine's part of a read, without its blocks
  double read_block = 500;            // copy and checksum of one block, look-ups included
  double write_request = 500;         // likewise
  double write_block = 900;           // checksum, copy into the group, index
  double group_close = 10'000;        // of the write that fills a group: hand it to the device
  double flush_request = 2'000;       // without the device
  double device_wait = 6'000;         // submit a transfer, sleep, wake
  double contended_wake = 15'000;     // more of it when background threads keep every core busy
  double map_page_miss = 8'000;       // a page of the block map from the metadata store
  double unit_miss = 6'000;           // a unit's record from the metadata store
  double destage_block = 1'800;       // collect, sort, verify, copy, map: a block stored directly
  double unit_record = 6'000;         // create and replace one unit's record
  double fingerprint_block = 2'900;   // SHA-256 of 4 KiB
  double fingerprint_lookup = 4'000;  // in the metadata store, and its later insertion
  // By codec (off, lz4, zstd1, zstd3), of data that compresses and of data that does not.
  double compress_byte[4] = {0, 1.6, 3.0, 4.0};
  double compress_byte_random[4] = {0, 0.16, 0.5, 0.55};
  double decompress_byte[4] = {0, 0.3, 0.75, 0.8};
};

// How small each codec (off, lz4, zstd1, zstd3) makes data, against what LZ4 makes of units of
// 32 KiB. Data decide: text and programs as here (medians, ADR 0008), content made by a load
// generator gains nothing from zstd (MeasureCodecRatios of fit/codec_ratios.h).
struct CodecRatios {
  double size_against_lz4[4] = {1, 1, 0.77, 0.74};
  double size_per_halving = 0.04;  // a unit of half the bytes packs so much worse
};

// The metadata store: where it writes its log decides what a commit costs.
struct MetadataCosts {
  double commit_ns = 400'000;  // one durable commit
  double commit_byte_ns = 4;   // and each byte of it
  double page_write_bytes = 1'600;
  uint64_t map_cache_bytes = 64 * kMiB;
  uint64_t journal_bytes_max = 8 * kMiB;
  uint64_t unit_cache_entries = 65'536;
};

struct NodeModel {
  uint64_t volume_bytes = 8 * kGiB;
  uint64_t cache_bytes = kGiB;
  std::string cache_device = "nvme";   // a service model's name
  uint64_t capacity_bytes = 8 * kGiB;  // of each
  std::string capacity_device = "disk-7200";
  int capacity_count = 2;
  double cache_speed = 1;  // a device of a class is so many times faster; a fitted one is as it is
  double capacity_speed = 1;
  // As measured, instead of a named class.
  std::optional<storage::ServiceParameters> cache_fitted = {};
  std::optional<storage::ServiceParameters> capacity_fitted = {};
  int cores = 2;
  int workers = 16;  // requests that the front end has under way at once
  // What a client sees besides the node's own time: socket, scheduler.
  uint64_t client_overhead_ns = 25'000;
  uint64_t host_memory_bytes = 0;  // read_cache_bytes is at most a tenth; 0: the table's range only
  // Every block of the volume was written before the run, in order, and destaged.
  bool prefilled = true;
  double prefill_compressed_per_mille = 600;
  CpuCosts cpu;
  MetadataCosts metadata;
  CodecRatios codec;

  // InvalidArgument with the reason when no node could be like this.
  absl::Status Check() const;
};

}  // namespace ebb::twin
