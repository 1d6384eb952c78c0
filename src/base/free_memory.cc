#include "evenkeel/base/free_memory.h"

#include <malloc.h>

namespace evenkeel {

void release_free_pages() { malloc_trim(0); }

}  // namespace evenkeel
