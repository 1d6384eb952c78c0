#include "evenkeel/discovery/discovery.h"
