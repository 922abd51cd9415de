#include "base/crc32c.h"

#include <array>
#include <cstring>

#if defined(__x86_64__)
#include <nmmintrin.h>
#endif

namespace ebb {
namespace {

constexpr uint32_t kPolynomialReflected = 0x82f63b78;

constexpr std::array<uint32_t, 256> MakeTable() {
  std::array<uint32_t, 256> table{};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t crc = i;
    for (int bit = 0; bit < 8; ++bit)
      crc = (crc >> 1) ^ ((crc & 1) != 0 ? kPolynomialReflected : 0);
    table[i] = crc;
  }
  return table;
}

constexpr std::array<uint32_t, 256> kTable = MakeTable();

uint32_t UpdatePortable(uint32_t crc, const std::byte* data, size_t bytes) {
  for (size_t i = 0; i < bytes; ++i) {
    crc = (crc >> 8) ^ kTable[(crc ^ static_cast<uint32_t>(data[i])) & 0xff];
  }
  return crc;
}

#if defined(__x86_64__)
// Multiplies a CRC register by x^(8 * bytes) mod P: what appending `bytes` zero bytes does to it.
constexpr uint32_t ShiftByBit(uint32_t crc) {
  return (crc >> 1) ^ ((crc & 1) != 0 ? kPolynomialReflected : 0);
}

// One lane of a 4 KiB block: three interleaved lanes hide the 3-cycle latency of the instruction
// (a plain loop is limited to one third of its throughput).
constexpr size_t kLaneBytes =
    1360;  // 3 * 1360 = 4080, the remaining 16 bytes of a block are serial

struct ShiftTables {
  std::array<std::array<uint32_t, 256>, 4> by_byte{};
};

// Tables so that shifting a register over `bytes` zero bytes is four look-ups.
constexpr ShiftTables MakeShiftTables(size_t bytes) {
  std::array<uint32_t, 32> column{};  // image of each bit of the register
  for (size_t bit = 0; bit < 32; ++bit) {
    uint32_t crc = uint32_t{1} << bit;
    for (size_t i = 0; i < bytes * 8; ++i) crc = ShiftByBit(crc);
    column[bit] = crc;
  }
  ShiftTables tables;
  for (size_t byte = 0; byte < 4; ++byte) {
    for (uint32_t value = 0; value < 256; ++value) {
      uint32_t sum = 0;
      for (size_t bit = 0; bit < 8; ++bit) {
        if ((value >> bit & 1) != 0) sum ^= column[byte * 8 + bit];
      }
      tables.by_byte[byte][value] = sum;
    }
  }
  return tables;
}

uint32_t ShiftLane(uint32_t crc) {
  static const ShiftTables kTables = MakeShiftTables(kLaneBytes);
  return kTables.by_byte[0][crc & 0xff] ^ kTables.by_byte[1][crc >> 8 & 0xff] ^
         kTables.by_byte[2][crc >> 16 & 0xff] ^ kTables.by_byte[3][crc >> 24];
}

uint64_t Load64(const std::byte* p) {
  uint64_t word = 0;
  std::memcpy(&word, p, sizeof word);
  return word;
}

__attribute__((target("sse4.2"))) uint32_t UpdateHardware(uint32_t crc, const std::byte* data,
                                                          size_t bytes) {
  while (bytes >= 3 * kLaneBytes) {
    uint64_t a = crc;
    uint64_t b = 0;
    uint64_t c = 0;
    for (size_t i = 0; i < kLaneBytes; i += 8) {
      a = _mm_crc32_u64(a, Load64(data + i));
      b = _mm_crc32_u64(b, Load64(data + kLaneBytes + i));
      c = _mm_crc32_u64(c, Load64(data + 2 * kLaneBytes + i));
    }
    crc = ShiftLane(ShiftLane(static_cast<uint32_t>(a)) ^ static_cast<uint32_t>(b)) ^
          static_cast<uint32_t>(c);
    data += 3 * kLaneBytes;
    bytes -= 3 * kLaneBytes;
  }
  uint64_t wide = crc;
  for (; bytes >= 8; bytes -= 8, data += 8) wide = _mm_crc32_u64(wide, Load64(data));
  crc = static_cast<uint32_t>(wide);
  for (; bytes > 0; --bytes, ++data) crc = _mm_crc32_u8(crc, static_cast<uint8_t>(*data));
  return crc;
}
#endif

}  // namespace

uint32_t Crc32c(std::span<const std::byte> data, uint32_t crc) {
  crc = ~crc;
#if defined(__x86_64__)
  static const bool kHasSse42 = __builtin_cpu_supports("sse4.2") != 0;
  if (kHasSse42) return ~UpdateHardware(crc, data.data(), data.size());
#endif
  return ~UpdatePortable(crc, data.data(), data.size());
}

}  // namespace ebb
