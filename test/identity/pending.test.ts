/** Sign-ins in progress: their owner, lifetime, and maximum number. */
import { describe, expect, test } from 'bun:test'
import { createSharedNotes } from '../../src/cluster/sign-in-notes.ts'
import type { SignInNoteKind, SignInNotes } from '../../src/domain/sign-in-notes.ts'
import { MemoryNotes, PENDING_MS, Pending } from '../../src/identity/pending.ts'
import { createLog } from '../../src/log.ts'
import { openPostgres } from '../../src/store/postgres/client.ts'
import { migratePostgres } from '../../src/store/postgres/migrate.ts'
import { describeWith, startPostgres } from '../support/engines.ts'
import { forAllTests } from '../support/lifetime.ts'

const isS = (what: string) => what === 's'

/** @param open the sign-ins as one node, and as another, has them. */
function testNotes(open: () => readonly [SignInNotes, SignInNotes]): void {
  test("a sign-in in progress is found by the browser's cookie and its purpose, once, and for ten minutes", async () => {
    const [one, other] = open().map((notes) => new Pending<string>(notes))
    if (!one || !other) throw new Error('two are needed')
    const secret = await one.begin('s', '203.0.113.7', 0)
    const wrong = [other.take(secret, 1, () => false), other.take('x', 1, isS), other.take(null, 1, isS)]
    expect(await Promise.all(wrong)).toEqual([null, null, null])
    const both = await Promise.all([one, other].map((each) => each.take(secret, PENDING_MS - 1, isS)))
    expect(both.toSorted()).toEqual([null, 's'])
    const late = await one.begin('s', '203.0.113.7', 0)
    expect(await one.take(late, PENDING_MS, isS)).toBeNull()
  })

  test('a network that begins many displaces its own', async () => {
    const [notes] = open()
    const pending = new Pending<string>(notes)
    const secret = await pending.begin('s', '203.0.113.7', 0)
    const first = await pending.begin('s', '2001:db8::', 1)
    for (let i = 0; i < 100; i++) await pending.begin('', `2001:db8::${i.toString(16)}`, 2)
    expect(await pending.take(first, 3, isS)).toBeNull()
    expect(await pending.take(secret, 3, isS)).toBe('s')
  })
}

describe('in memory', () => {
  testNotes(() => {
    const notes = new MemoryNotes()
    return [notes, notes]
  })

  test('a limited number is stored', async () => {
    const notes = new MemoryNotes()
    const pending = new Pending<string>(notes)
    for (let i = 0; i < 12_000; i++) await pending.begin('', `10.${i >> 16}.${(i >> 8) & 255}.${i & 255}`, 0)
    expect(notes.size).toBe(10_000)
    await pending.begin('', '203.0.113.7', PENDING_MS)
    expect(notes.size).toBe(1)
  })
})

describeWith('PostgreSQL')('of a cluster', () => {
  const server = forAllTests(() => startPostgres())
  const postgres = forAllTests(async () => {
    const opened = openPostgres({ url: server.url, log: createLog({ now: Date.now, write: async () => {} }) })
    await migratePostgres(opened)
    return opened
  })
  const kinds: SignInNoteKind[] = ['provider', 'passkey', 'setup']
  testNotes(() => {
    const kind = kinds.pop() ?? 'setup'
    return [createSharedNotes(postgres, kind), createSharedNotes(postgres, kind)]
  })
})
