// Envoy's messages of external processing.
#pragma once

#include <ext_proc_proto/ext_proc.pb.h>
