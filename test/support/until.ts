/** Waits until `test` holds; fails the test with `what` after 10 s. */
export async function until(what: string, test: () => boolean | Promise<boolean>): Promise<void> {
  const end = performance.now() + 10_000
  while (!(await test())) {
    if (performance.now() > end) throw new Error(`waited in vain for ${what}`)
    await Bun.sleep(5)
  }
}

/** Waits until a running server lets a key in that a command has made beside it: it looks for changes every few ms. */
export const untilKnown = (baseUrl: string, secret: string): Promise<void> =>
  until('the server to know a new key', async () => {
    const response = await fetch(`${baseUrl}/models`, { headers: { authorization: `Bearer ${secret}` } })
    await response.body?.cancel()
    return response.ok
  })
