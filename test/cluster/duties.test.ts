/** Work that one node does for all: only the leader sends alerts, and it also reports problems of other nodes. */
import { expect, test } from 'bun:test'
import type { ClusterNode } from '../../src/cluster/nodes.ts'
import { toProblem } from '../../src/cluster/watch-nodes.ts'
import { createLog } from '../../src/log.ts'
import { createAlertWatch } from '../../src/server/alerts.ts'

test('only the leader looks for alerts; a former one reads the sent alerts again before it sends any', async () => {
  const calls: string[] = []
  const call = (name: string) => async () => void calls.push(name)
  let leads = false
  let targets = 0
  const teller = { look: call('look'), deliver: call('deliver'), forget: call('forget'), close() {} }
  const watch = createAlertWatch({
    alerts: { readTargets: async () => Array.from({ length: targets }) as [] },
    load: async () => ({
      teller: { ...teller, test: () => Promise.reject(new Error('not asked')) },
      find: async () => ({ found: new Map(), unknown: new Set() }),
    }),
    isOnDuty: () => leads,
    log: createLog({ now: Date.now, write: async () => {} }),
  })
  const steps: [boolean, number][] = [
    [false, 1],
    [true, 0],
    [true, 1],
    [false, 1],
    [true, 1],
  ]
  const seen: string[][] = []
  for ([leads, targets] of steps) {
    await watch.renew(true)
    seen.push(calls.splice(0))
  }
  await watch.close()
  expect(seen).toEqual([[], [], ['look', 'deliver'], ['forget'], ['look', 'deliver']])
})

test('a silent node or one with a problem is reported, but not one that was stopped', () => {
  const node = (name: string, fields: Partial<ClusterNode>): ClusterNode => ({
    ...{ id: name, name, epoch: 'e', address: '', version: '1.0.0', state: 'active', isLiving: true },
    ...{ startedMs: 0, seenMsAgo: 100, facts: {}, ...fields },
  })
  const gone = { isLiving: false, seenMsAgo: 120_000 }
  expect(
    toProblem([node('own', gone), node('two', {}), node('three', { ...gone, state: 'stopped' })], 'own'),
  ).toBeNull()
  expect(toProblem([node('two', gone), node('three', { facts: { problem: 'The disk is full.' } })], 'own')).toBe(
    "Node two has been silent for 2 min. If it isn't coming back: tollgate cluster leave two Node three: The disk is full.",
  )
  expect(toProblem([node('two', { isLiving: false, seenMsAgo: 20_000 })], 'own')).toBeNull()
})
