// Which of several devices takes the next extent: the node's segment table and the twin's ask here.
//
// A smooth weighted turn: every device with room earns one more than it has free segments, the
// richest goes next and pays for all. So free space evens out without bursts to one device. Pure.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

namespace ebb::storage {

// `Device` keeps `credit` (a double, 0 to begin with) for this, and counts its `free` segments;
// has_room(device) says whether it may be chosen. Nothing when none may.
template <typename Device, typename HasRoom>
std::optional<size_t> NextInTurn(std::vector<Device>& devices, const HasRoom& has_room) {
  std::optional<size_t> richest;
  double earned = 0;
  for (size_t i = 0; i < devices.size(); ++i) {
    Device& device = devices[i];
    if (!has_room(device)) continue;
    const double share = static_cast<double>(device.free) + 1;
    device.credit += share;
    earned += share;
    if (!richest.has_value() || device.credit > devices[*richest].credit) richest = i;
  }
  if (richest.has_value()) devices[*richest].credit -= earned;
  return richest;
}

}  // namespace ebb::storage
