/** The loads for measuring requests and chunks: connections with whole responses, and concurrent streams. */
export const JSON_LOADS = ['json1', 'json32', 'json64k'] as const
export type JsonLoad = (typeof JSON_LOADS)[number]
/** Of chats, of passthrough Messages, and of Messages translated to chats. */
export const STREAM_LOADS = ['streams200', 'native200', 'translated200'] as const
export type StreamLoad = (typeof STREAM_LOADS)[number]
export const LOADS = [...JSON_LOADS, ...STREAM_LOADS, 'streams1000'] as const
export type Load = (typeof LOADS)[number]

export const isJsonLoad = (load: Load): load is JsonLoad => JSON_LOADS.some((one) => one === load)
