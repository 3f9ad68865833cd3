/* SPDX-License-Identifier: Apache-2.0
 * SPECTRALCLIP_EXPORT marks what the library shows of itself; everything else in it is hidden, from the linker too. */
#ifndef SPECTRALCLIP_EXPORT_H
#define SPECTRALCLIP_EXPORT_H

#if defined(__GNUC__)
#define SPECTRALCLIP_EXPORT __attribute__((visibility("default")))
#else
#define SPECTRALCLIP_EXPORT
#endif

#endif /* SPECTRALCLIP_EXPORT_H */
