/**
 * How much may be under way at once (design 8): requests, and bytes that are held in memory for them. What is beyond is
 * refused at once with 503, so that an overload never becomes a queue.
 */
import { allow, type Decision, GatewayError, refuse } from '../domain/error.ts'

interface BoundsOptions {
  maxInFlight: number
  maxBufferedBytes: number
}

/** What one request takes up. */
export interface Room {
  /** Counts bytes in that the request keeps until it ends. Returns the refusal where there is no room for them. */
  take(bytes: number): GatewayError | null
  /** Gives everything back. Idempotent. */
  leave(): void
}

export interface Bounds {
  /** Counts a request in, or refuses it. */
  enter(): Decision<Room>
  inFlight(): number
  bufferedBytes(): number
}

export function createBounds({ maxInFlight, maxBufferedBytes }: BoundsOptions): Bounds {
  let inFlight = 0
  let buffered = 0
  return {
    enter() {
      if (inFlight >= maxInFlight) return refuse(overloaded(`${maxInFlight} requests are under way, its most`))
      inFlight++
      let held = 0
      let left = false
      return allow({
        take(bytes) {
          if (buffered + bytes > maxBufferedBytes) {
            return overloaded(
              `requests under way hold ${toMebibytes(buffered)} of ${toMebibytes(maxBufferedBytes)} MiB`,
            )
          }
          if (left) return null
          held += bytes
          buffered += bytes
          return null
        },
        leave() {
          if (left) return
          left = true
          inFlight--
          buffered -= held
        },
      })
    },
    inFlight: () => inFlight,
    bufferedBytes: () => buffered,
  }
}

const toMebibytes = (bytes: number) => Math.round(bytes / 1024 ** 2)

const overloaded = (why: string) =>
  new GatewayError(
    'overloaded',
    `This Tollgate has too much to do: ${why}. Nothing was done for this request; try again.`,
  )
