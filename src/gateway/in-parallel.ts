/** Runs the calls of a fan-out beside each other. */
import { UpstreamError } from '../domain/error.ts'

/**
 * Runs `count` tasks, `parallel` of them at once, lowest first. Rejects with the first failure once those under way have
 * ended. One that finds no place beside the others is put back for them, and fails only where it is alone.
 */
export async function inParallel(
  count: number,
  parallel: number,
  task: (index: number) => Promise<void>,
  onFailure: () => void,
): Promise<void> {
  const left = Array.from({ length: count }, (_, index) => index)
  const failures: unknown[] = []
  let underWay = 0
  let ended = 0
  const worker = async () => {
    for (let index = left.shift(); index !== undefined && failures.length === 0; index = left.shift()) {
      const endedBefore = ended
      underWay++
      try {
        await task(index)
        ended++
      } catch (error) {
        const isAlone = underWay === 1 && ended === endedBefore
        if (isAlone || !isOwnLimit(error)) {
          failures.push(error)
          onFailure()
          return
        }
        left.push(index)
        left.sort((a, b) => a - b)
        if (underWay > 1) return
      } finally {
        underWay--
      }
    }
  }
  await Promise.all(Array.from({ length: parallel }, worker))
  if (failures.length > 0) throw failures[0]
}

const isOwnLimit = (error: unknown) => error instanceof UpstreamError && error.isOwnLimit
