import { expect, test } from 'bun:test'
import { createRest } from '../../src/server/rest.ts'

test('memory of a load is returned once the server rests, once per load, and only as often as it helps', () => {
  let bytes = 100
  let left = 100
  let collections = 0
  const look = createRest({
    residentBytes: () => bytes,
    collect() {
      collections++
      bytes = left
    },
  })
  const see = (inFlight: number, now = bytes) => {
    bytes = now
    look(inFlight)
    return collections
  }
  expect([see(0), see(0)]).toEqual([0, 0])
  // Between two requests.
  expect([see(1, 600), see(0), see(1), see(0)]).toEqual([0, 0, 0, 0])
  expect([see(0), see(0), see(0)]).toEqual([1, 1, 1])
  // A little more than at rest.
  expect([see(1, 140), see(0), see(0)]).toEqual([1, 1, 1])
  left = 500
  expect([see(1, 600), see(0), see(0), see(0), see(0)]).toEqual([1, 1, 2, 2, 2])
  left = 100
  expect([see(1, 800), see(0), see(0), see(0)]).toEqual([2, 2, 3, 3])
})
