/** Which upstreams can be asked, as far as a running server knows. Pure. */
const OUT: ReadonlySet<string> = new Set(['down', 'not_ready', 'refused'])

/** One that nobody has asked yet is ready until it proves otherwise. */
export const isReady = ({ state }: { state: string }): boolean => !OUT.has(state)

/** In words: `not ready`. */
export const toStateText = (state: string): string => state.replaceAll('_', ' ')
