// Who is on the other end of a local connection.
#pragma once

#include <string>

namespace ebb::rest {

// "operator:alice" by the user that owns the peer's socket, "operator:uid-1234" when that user has
// no name, "operator" when the kernel does not tell. `socket` is a connected unix or loopback TCP
// socket; for TCP the kernel's table of sockets is searched, so call this for writes only.
std::string PeerActor(int socket);

}  // namespace ebb::rest
