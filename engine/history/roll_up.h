// RollUp: what is kept of several windows once they are one: number by number how many had it, the
// smallest, the largest and the sum.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "engine/tuner_service.h"

namespace ebb::engine {

class RollUp {
 public:
  // Numbers that are not finite count as missing.
  void Add(const SeriesPoint& point);
  void Add(const RollUp& other);

  uint32_t windows() const { return windows_; }
  // Of its last window.
  int64_t last_ms() const { return last_ms_; }
  SeriesBucket ToBucket() const;

  // Its bytes in the history; see docs/formats.md.
  std::string Pack() const;
  // False when the bytes are no roll-up.
  static bool Unpack(std::string_view bytes, RollUp& roll_up);

 private:
  struct Number {
    uint32_t count = 0;
    float min = 0;
    float max = 0;
    double sum = 0;
  };
  uint32_t windows_ = 0;
  int64_t last_ms_ = 0;
  bool on_trial_ = false;
  bool holdback_ = false;
  std::array<Number, kSeriesColumns.size()> numbers_;
};

// A window's bytes in the history.
std::string PackPoint(const SeriesPoint& point);
bool UnpackPoint(std::string_view bytes, SeriesPoint& point);

}  // namespace ebb::engine
