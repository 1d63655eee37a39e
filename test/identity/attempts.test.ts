/** How many failed attempts are allowed, and for whom sign-in is blocked then. */
import { describe, expect, test } from 'bun:test'
import { createSharedFailures } from '../../src/cluster/sign-in-failures.ts'
import { ServiceError } from '../../src/domain/service-error.ts'
import { type Attempt, Attempts } from '../../src/identity/attempts.ts'
import { MemoryFailures } from '../../src/identity/memory-failures.ts'
import { createLog } from '../../src/log.ts'
import { openPostgres } from '../../src/store/postgres/client.ts'
import { migratePostgres } from '../../src/store/postgres/migrate.ts'
import { describeWith, startPostgres } from '../support/engines.ts'
import { forAllTests } from '../support/lifetime.ts'

const WINDOW = 15 * 60_000
const wrong = async () => {
  throw new ServiceError({ kind: 'sign_in_failed' }, 'wrong')
}
/** An attempt with a password, by default. */
const toTry = (address: string, by: Attempt['by'] | { name: string }, nowMs = 0): Attempt => ({
  ...{ address, nowMs },
  by: typeof by === 'object' && 'name' in by ? { password: by.name, isKnown: by.name === 'ann' } : by,
})
const kindOf = (trying: Promise<unknown>) =>
  trying.then(
    () => 'open',
    (error: unknown) => (error instanceof ServiceError ? error.failure.kind : String(error)),
  )
type Tries = Pick<Attempts, 'try'>
const isOpen = async (attempts: Tries, attempt: Attempt) =>
  (await kindOf(attempts.try(attempt, async () => {}))) === 'open'
const fail = async (attempts: Tries, times: number, toAttempt: (i: number) => Attempt) => {
  for (let i = 0; i < times; i++) await kindOf(attempts.try(toAttempt(i), wrong))
}
const ann = { name: 'ann' }

function testAttempts(open: () => Promise<Tries>): void {
  test('five failures block an account for one address, whatever address that uses in its network', async () => {
    const attempts = await open()
    await fail(attempts, 5, (i) => toTry(`2001:db8:0:1::${i}`, ann))
    expect(await isOpen(attempts, toTry('2001:db8:0:1:ffff::9', ann, 1))).toBe(false)
    expect(await isOpen(attempts, toTry('2001:db8:0:2::1', ann, 1))).toBe(true)
    expect(await isOpen(attempts, toTry('2001:db8:0:1::1', { name: 'bob' }, 1))).toBe(true)
    expect(await isOpen(attempts, toTry('2001:db8:0:1::1', ann, WINDOW))).toBe(true)
  })

  test('twenty block an address for all accounts, fifty an account for all addresses', async () => {
    const attempts = await open()
    await fail(attempts, 20, (i) => toTry('192.0.2.1', { name: `name ${i}` }))
    expect(await isOpen(attempts, toTry('192.0.2.1', { name: 'somebody else' }, 1))).toBe(false)
    await fail(attempts, 50, (i) => toTry(`198.51.100.${i}`, ann))
    expect(await isOpen(attempts, toTry('203.0.113.1', ann, 1))).toBe(false)
  })

  test('each kind of proof is counted separately, and no typed name affects another', async () => {
    const attempts = await open()
    await fail(attempts, 20, () => toTry('192.0.2.1', 'code'))
    await fail(attempts, 5, () => toTry('192.0.2.1', 'provider'))
    for (const by of ['code', 'provider'] as const) {
      expect(await isOpen(attempts, toTry('192.0.2.1', by, 1))).toBe(false)
      expect(await isOpen(attempts, toTry('192.0.2.2', by, 1))).toBe(true)
    }
    expect(await isOpen(attempts, toTry('192.0.2.1', ann, 1))).toBe(true)
    const names = ['', 'code 192.0.2.9', 'provider 192.0.2.9', 'oidc 192.0.2.9', 'address 192.0.2.9']
    for (const name of names) await fail(attempts, 50, (i) => toTry(`198.51.100.${i}`, { name }))
    for (const by of ['code', 'provider', ann] as const)
      expect(await isOpen(attempts, toTry('192.0.2.9', by, 1))).toBe(true)
  })

  test('concurrent attempts are limited like sequential ones', async () => {
    for (const [by, most] of [
      [ann, 5],
      ['code', 20],
      ['provider', 5],
    ] as const) {
      const attempts = await open()
      let tried = 0
      const work = async () => {
        tried++
        await Promise.resolve()
        return wrong()
      }
      await Promise.all(
        Array.from({ length: 40 }, () => kindOf(attempts.try(toTry('192.0.2.1', by), work, () => true))),
      )
      expect([by, tried]).toEqual([by, most])
    }
  })

  test('successful attempts, and failures for another reason, are not counted', async () => {
    const attempts = await open()
    const busy = async () => {
      throw new Error('the database is busy')
    }
    for (let i = 0; i < 100; i++) {
      expect(await isOpen(attempts, toTry('192.0.2.1', ann, i))).toBe(true)
      expect(await kindOf(attempts.try(toTry('192.0.2.1', { name: 'bob' }, i), busy))).toContain('busy')
    }
    expect(await isOpen(attempts, toTry('192.0.2.1', { name: 'bob' }, 100))).toBe(true)
  })
}

describe('at one server', () => {
  testAttempts(async () => new Attempts())
})

describeWith('PostgreSQL')('at two nodes by turns', () => {
  const server = forAllTests(() => startPostgres())
  const postgres = forAllTests(async () => {
    const opened = openPostgres({ url: server.url, log: createLog({ now: Date.now, write: async () => {} }) })
    await migratePostgres(opened)
    return opened
  })
  testAttempts(async () => {
    await postgres.query('truncate tollgate.sign_in_failures')
    const nodes = [1, 2].map(() => new Attempts(undefined, createSharedFailures(postgres)))
    let turn = 0
    return { try: (...asked) => (nodes[turn++ % 2] ?? new Attempts()).try(...asked) }
  })
})

test("an address that has signed in before can't be blocked by others, and has five attempts like all", async () => {
  const attempts = new Attempts()
  expect(await isOpen(attempts, toTry('192.0.2.1', ann))).toBe(true)
  await fail(attempts, 20, (i) => toTry('192.0.2.1', { name: `name ${i}` }))
  await fail(attempts, 50, (i) => toTry(`198.51.100.${i}`, ann))
  expect(await isOpen(attempts, toTry('192.0.2.1', ann, 1))).toBe(true)
  await fail(attempts, 5, () => toTry('192.0.2.1', ann, 1))
  expect(await isOpen(attempts, toTry('192.0.2.1', ann, 2))).toBe(false)
})

test('a flood of names and addresses is remembered only up to a limit', async () => {
  const failures = new MemoryFailures()
  const attempts = new Attempts(undefined, failures)
  await fail(attempts, 30_000, (i) => toTry(`10.${i >> 16}.${(i >> 8) & 255}.${i & 255}`, { name: `name ${i}` }))
  for (let i = 0; i < 11_000; i++) await attempts.opened(`10.0.${i >> 8}.${i & 255}`, 'ann')
  await fail(attempts, 5, () => toTry('192.0.2.1', ann))
  expect(await isOpen(attempts, toTry('192.0.2.1', ann, 1))).toBe(false)
  // So is the account itself.
  expect(failures.size + attempts.size).toBeLessThanOrEqual(20_001)
})

test('a blocked account stays blocked, however many other names and addresses fail meanwhile', async () => {
  const attempts = new Attempts()
  await fail(attempts, 50, (i) => toTry(`198.51.100.${i}`, ann))
  await fail(attempts, 30_000, (i) => toTry(`10.${i >> 16}.${(i >> 8) & 255}.${i & 255}`, { name: `name ${i}` }, 1))
  expect(await isOpen(attempts, toTry('203.0.113.1', ann, 2))).toBe(false)
})
