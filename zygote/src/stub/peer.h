/* Whether the process at the other end of a socket stands on the same side of every boundary that
 * the kernel draws. */
#ifndef STUB_PEER_H
#define STUB_PEER_H

/* NULL, or what differs. */
const char *peer_differs(int socket);

#endif
