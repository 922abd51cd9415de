// The replies of a worker of nbdkit, sent together where that delays nobody.
//
// nbdkit sends a reply in two calls, its 16 bytes and its data, and goes back for the next request.
// Each call may wake the client, and waking costs as much as a hit. So here
//   - the 16 bytes in front of a read's data wait for that data, which the same thread sends next;
//   - a whole reply of a worker that has kept its turn (nbdkit_turn.h) waits while another request
//     is already there. It leaves before the worker waits for anything: for a request, for its
//     payload, for a device; and once kRepliesMax or kHeldBytesMax are together.
//
// A client that is gone takes everything: its bytes go nowhere. Another failure to send ends the
// connection. Each thread holds its own; nothing here may be called from a signal handler.
#pragma once

#include <cstddef>

#include <sys/types.h>

namespace ebb::storage {

// As send(2), of a worker that holds the connection's lock for sending.
ssize_t SendOrHold(int fd, const void* data, size_t bytes, int flags);

// Whether the calling thread holds replies of `fd`.
bool HoldsReplies(int fd);

// Sends what the calling thread holds, under the lock that it was handed over under.
void SendHeldReplies();

// Gives the thread's memory back.
void DropReplies();

}  // namespace ebb::storage
