/* SPDX-License-Identifier: Apache-2.0
 *
 * nats_library.h - libnats, opened when it is asked for: a machine without it runs all that needs no bus. Private to
 * this room.
 */
#ifndef RANKTRACE_NATS_LIBRARY_H
#define RANKTRACE_NATS_LIBRARY_H

#include <nats/nats.h>

/* clang-format off */
#define NATS_FUNCTIONS(X) \
	X(jsCtx_Destroy) X(jsMsgMetaData_Destroy) X(jsOptions_Init) X(jsPubAck_Destroy) \
	X(jsPubOptions_Init) X(jsStreamConfig_Init) X(jsSubOptions_Init) X(js_AddStream) \
	X(js_CreateKeyValue) X(js_DirectGetMsg) X(js_GetLastMsg) X(js_KeyValue) X(js_Publish) X(js_SubscribeSync) \
	X(jsConsumerInfo_Destroy) X(jsDirectGetMsgOptions_Init) X(jsStreamInfo_Destroy) \
	X(js_DeleteStream) X(js_GetStreamInfo) \
	X(kvConfig_Init) X(natsMsgHeader_Get) \
	X(kvStore_Create) X(kvStore_Destroy) X(kvStore_Update) X(natsConnection_Connect) \
	X(natsConnection_Destroy) X(natsConnection_FlushTimeout) X(natsConnection_GetLastError) \
	X(natsConnection_Publish) X(natsConnection_PublishRequest) X(natsConnection_SubscribeSync) \
	X(natsInbox_Create) X(natsInbox_Destroy) X(natsMsg_GetReply) \
	X(natsConnection_JetStream) X(natsConnection_Status) X(natsMsg_Destroy) \
	X(natsMsg_GetData) X(natsMsg_GetDataLength) X(natsMsg_GetMetaData) X(natsMsg_GetSequence) \
	X(natsMsg_GetSubject) X(natsOptions_Create) X(natsOptions_Destroy) \
	X(natsOptions_LoadCATrustedCertificates) X(natsOptions_LoadCertificatesChain) \
	X(natsOptions_SetErrorHandler) X(natsOptions_SetMaxPingsOut) X(natsOptions_SetMaxReconnect) \
	X(natsOptions_SetName) X(natsOptions_SetPingInterval) X(natsOptions_SetReconnectBufSize) \
	X(natsOptions_SetReconnectWait) X(natsOptions_SetRetryOnFailedConnect) X(natsOptions_SetSecure) \
	X(natsOptions_SetServers) X(natsOptions_SetTimeout) X(natsOptions_SetUserCredentialsFromFiles) \
	X(natsStatus_GetText) X(natsSubscription_Destroy) X(natsSubscription_GetConsumerInfo) \
	X(natsSubscription_NextMsg) \
	X(natsSubscription_SetPendingLimits) X(nats_GetLastError)
/* clang-format on */

struct nats_library {
#define X(name) __typeof__(name) *name;
	NATS_FUNCTIONS(X)
#undef X
};

/* The one of this process; never closed. NULL: it is not there, or lacks a function, and why is in `error`. */
const struct nats_library *nats_library_open(char *error, size_t size);

#endif
