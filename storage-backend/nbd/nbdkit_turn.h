// A worker of nbdkit keeps its turn to read from the connection until it would have to wait.
//
// nbdkit's workers take turns: one holds the connection's read lock, receives a request, gives the
// lock up, works, replies. Giving it up wakes the next worker, on another core, for every request:
// a futex call here, another there, two changes of context, and the data in the wrong core's cache.
// For a hit that is as much as the work itself. So the worker that has received a request keeps the
// lock while it works; back for the next request, it has it already. When the work must wait for
// something (a device, the throttle, a client that does not read), it gives the lock up first, and
// the next worker goes on: misses are served side by side as before.
//
// How the lock is known: it is the innermost one held while 28 bytes that begin with NBD's request
// magic are received. Where that does not fit (TLS, a request in pieces, another nbdkit), nothing
// is kept.
#pragma once

#include <pthread.h>

namespace ebb::storage {

// Gives the turn of the calling thread up, if it has kept one; the replies it holds leave before.
void GiveUpTurn();

// Whether the calling thread has kept its turn.
bool HasTurn();

// The lock that the calling thread took last and still holds; null: none, or not known.
pthread_mutex_t* InnermostLock();

// libc's own functions: what is taken so is not noted.
void LockUnseen(pthread_mutex_t* mutex);
void UnlockUnseen(pthread_mutex_t* mutex);

}  // namespace ebb::storage

// The same, for the plugin to find: called before anything that may wait.
extern "C" void ebb_nbdkit_may_block();
