/** Whether a `finish_reason` says that a choice ended, in any word: some servers write '' or "null" into every chunk. */
export const isFinish = (reason: unknown): boolean => typeof reason === 'string' && reason !== '' && reason !== 'null'
