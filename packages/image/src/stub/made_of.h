/* Whether the files that an image was made of are as they were, as far as its interpreter would look. */
#ifndef STUB_MADE_OF_H
#define STUB_MADE_OF_H

#include "manifest.h"

/* NULL, or the path of the first that is not. */
const char *made_of_differs(const manifest *m);

#endif
