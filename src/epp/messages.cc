#include "epp/messages.h"
