/** Waits for what others may wait for, too, only until a signal aborts: then throws its reason, and what it waited for goes on. */
export async function whileWanted<T>(pending: Promise<T>, signal: AbortSignal): Promise<T> {
  const { promise: aborted, reject } = Promise.withResolvers<never>()
  const abort = () => reject(signal.reason)
  signal.addEventListener('abort', abort, { once: true })
  if (signal.aborted) abort()
  try {
    return await Promise.race([pending, aborted])
  } finally {
    signal.removeEventListener('abort', abort)
  }
}
