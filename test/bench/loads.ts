/** The loads that requests and chunks are measured under: connections of whole answers, streams side by side. */
export const LOADS = ['json1', 'json32', 'streams200', 'streams1000'] as const
export type Load = (typeof LOADS)[number]
