#include "scaling/messages.h"
