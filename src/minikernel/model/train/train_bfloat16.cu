// MiniGPT trained in one launch (train.cuh), with operands of products rounded to bfloat16.
#define OPERANDS_BFLOAT16
#include "../ptx.cuh"
#include "ptx.cuh"
#include "products.cuh"
#include "layout.cuh"
#include "packed.cuh"
#include "rows.cuh"
#include "attention.cuh"
#include "blocks.cuh"
#include "tile.cuh"
#include "gradients.cuh"
#include "update.cuh"
#include "train.cuh"
