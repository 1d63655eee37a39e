/** Waits until `test` holds; fails the test with `what` after `seconds`. */
export async function until(what: string, test: () => boolean | Promise<boolean>, seconds = 10): Promise<void> {
  const end = performance.now() + seconds * 1_000
  while (!(await test())) {
    if (performance.now() > end) throw new Error(`waited in vain for ${what}`)
    await Bun.sleep(5)
  }
}
