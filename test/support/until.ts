/** Waits until `test` holds; fails the test with `what` after 10 s. */
export async function until(what: string, test: () => boolean | Promise<boolean>): Promise<void> {
  const end = performance.now() + 10_000
  while (!(await test())) {
    if (performance.now() > end) throw new Error(`waited in vain for ${what}`)
    await Bun.sleep(5)
  }
}
