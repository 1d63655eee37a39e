/** Links between real processes: order, gathering, sizes, and ends. */
import { afterAll, expect, test } from 'bun:test'
import { mkdtempSync, rmSync, statSync } from 'node:fs'
import { connect, createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Link, LinkError, LinkLost, topic } from '../../../src/domain/link.ts'
import { connectLink, listenForLinks } from '../../../src/server/workers/link.ts'

const folder = mkdtempSync(join(tmpdir(), 'link-'))
afterAll(() => rmSync(folder, { recursive: true }))

let sockets = 0
const newPath = () => join(folder, `${++sockets}.sock`)

const ECHO = topic<unknown, unknown>('echo')
const NOTE = topic<unknown>('note')

/** Both ends in this process. */
async function linked(): Promise<[near: Link, far: Link]> {
  const path = newPath()
  const opened = Promise.withResolvers<Link>()
  const listener = listenForLinks(path, opened.resolve)
  const near = await connectLink(path)
  const far = await opened.promise
  listener.stop()
  return [near, far]
}

/** A process that answers `echo`, tells `note` 1,000 times on `burst`, and ends on `die`. */
async function otherProcess(): Promise<{ link: Link; process: Bun.Subprocess }> {
  const path = newPath()
  const opened = Promise.withResolvers<Link>()
  const listener = listenForLinks(path, opened.resolve)
  const script = `
    const { connectLink } = await import(${JSON.stringify(join(import.meta.dir, '../../../src/server/workers/link.ts'))})
    const link = await connectLink(${JSON.stringify(path)})
    const echo = { name: 'echo' }, note = { name: 'note' }
    link.on(echo, (body) => body)
    link.on({ name: 'never' }, () => new Promise(() => {}))
    link.on({ name: 'burst' }, () => {
      for (let at = 0; at < 1000; at++) link.tell(note, at)
      link.close()
    })
    link.on({ name: 'die' }, () => process.kill(process.pid, 'SIGKILL'))`
  const child = Bun.spawn([process.execPath, '-e', script], { stdio: ['ignore', 'inherit', 'inherit'] })
  const link = await opened.promise
  listener.stop()
  return { link, process: child }
}

test('the socket is readable by this user only, and replaces a stale one', async () => {
  const path = newPath()
  listenForLinks(path, () => {})
  const listener = listenForLinks(path, (link) => link.on(ECHO, () => 'the second'))
  expect(statSync(path).mode & 0o777).toBe(0o700)
  const link = await connectLink(path)
  expect(await link.ask(ECHO, null)).toBe('the second')
  listener.stop()
  await expect(connectLink(newPath())).rejects.toThrow()
})

test('what is told and asked arrives in order, whatever it holds, and each question gets its own answer', async () => {
  const [near, far] = await linked()
  const told: unknown[] = []
  far.on(NOTE, (body) => void told.push(body))
  far.on(ECHO, async (body) => {
    if (body === 0) await Bun.sleep(1)
    return [body, told.length]
  })
  near.tell(NOTE, 'one\n"line"')
  const slow = near.ask(ECHO, 0)
  near.tell(NOTE, { nothing: null, text: '€ 💸' })
  const fast = near.ask(ECHO, 1)
  near.tell(NOTE, [])
  expect(await Promise.race([slow, fast])).toEqual([1, 2])
  expect(await slow).toEqual([0, 3])
  expect(told).toEqual(['one\n"line"', { nothing: null, text: '€ 💸' }, []])
})

test('a body is sent as it was when it was told', async () => {
  const [near, far] = await linked()
  far.on(ECHO, (body) => body)
  const body = { count: 1 }
  const answer = near.ask(ECHO, body)
  body.count = 2
  expect(await answer).toEqual({ count: 1 })
})

test('what arrives before its handler is kept for it', async () => {
  const [near, far] = await linked()
  near.tell(NOTE, 1)
  near.tell(NOTE, 2)
  const answer = near.ask(ECHO, 3)
  far.on(topic<null, null>('there'), (body) => body)
  await near.ask(topic<null, null>('there'), null)
  const told: unknown[] = []
  far.on(NOTE, (body) => void told.push(body))
  expect(told).toEqual([1, 2])
  far.on(ECHO, (body) => body)
  expect(await answer).toBe(3)
})

test('the messages of a turn are one write, and so are their answers', async () => {
  const path = newPath()
  const opened = Promise.withResolvers<Link>()
  const server = listenForLinks(path, opened.resolve)
  const written: string[] = []
  const raw = connect(path).on('data', (data) => written.push(data.toString()))
  const link = await opened.promise
  const answers = [link.ask(ECHO, 1), link.ask(ECHO, 2)]
  link.tell(NOTE, 3)
  link.on(ECHO, (body) => body)
  raw.write('[[1,"one"],[2,"two"],["echo","a",7],["echo","b",8]]\n')
  expect(await Promise.all(answers)).toEqual(['one', 'two'])
  while (written.length < 2) await Bun.sleep(1)
  expect(written).toEqual(['[["echo",1,1],["echo",2,2],["note",3]]\n', '[[7,"a"],[8,"b"]]\n'])
  raw.destroy()
  server.stop()
})

test('lines may be split anywhere, also within a character', async () => {
  const path = newPath()
  const server = createServer(async (socket) => {
    const bytes = Buffer.from('[["note","€💸"],["note",1]]\n[["note",2]]\n[["note",3]]\n')
    for (const byte of bytes.subarray(0, 30)) {
      socket.write(Buffer.of(byte))
      await new Promise(setImmediate)
    }
    socket.write(bytes.subarray(30))
  }).listen(path)
  const link = await connectLink(path)
  const told: unknown[] = []
  link.on(NOTE, (body) => void told.push(body))
  while (told.length < 4) await Bun.sleep(1)
  expect(told).toEqual(['€💸', 1, 2, 3])
  link.close()
  server.close()
})

test('what is no message ends the link', async () => {
  const path = newPath()
  const server = createServer((socket) => void socket.write('GET / HTTP/1.1\n')).listen(path)
  const link = await connectLink(path)
  await link.ended
  server.close()
})

test('large bodies go through whole, in both directions at once', async () => {
  const { link, process } = await otherProcess()
  const texts = Array.from({ length: 8 }, (_, at) => `${at}€`.repeat(250_000))
  const answers = await Promise.all(texts.map((text) => link.ask(ECHO, text)))
  expect(answers.every((answer, at) => answer === texts[at])).toBe(true)
  expect(await link.ask(ECHO, 'small')).toBe('small')
  process.kill()
  await link.ended
})

test('a handler that throws answers a LinkError with its message; later messages are handled', async () => {
  const [near, far] = await linked()
  far.on(ECHO, (body) => {
    if (body === 'now') throw new Error('failed at once')
    return Promise.reject(new Error('failed later'))
  })
  const failures = await Promise.allSettled([near.ask(ECHO, 'now'), near.ask(ECHO, 'later')])
  expect(failures.map((one) => one.status === 'rejected' && one.reason)).toEqual([
    new LinkError('failed at once'),
    new LinkError('failed later'),
  ])
  expect(failures.every((one) => one.status === 'rejected' && one.reason instanceof LinkError)).toBe(true)
})

test('what was told before a close arrives before the end', async () => {
  const { link } = await otherProcess()
  const told: unknown[] = []
  link.on(NOTE, (body) => void told.push(body))
  link.tell(topic<null>('burst'), null)
  await link.ended
  expect(told).toEqual(Array.from({ length: 1000 }, (_, at) => at))
})

test('when the other process is killed, open and further questions reject with LinkLost, and what is told is dropped', async () => {
  const { link } = await otherProcess()
  const open = Promise.allSettled([link.ask(topic<null, null>('never'), null), link.ask(ECHO, 'x'.repeat(1_000_000))])
  link.tell(topic<null>('die'), null)
  // More than the system takes: a part is still unwritten when it dies.
  for (let at = 0; at < 20; at++) link.tell(NOTE, 'x'.repeat(1_000_000))
  await link.ended
  expect((await open)[0]).toMatchObject({ status: 'rejected', reason: expect.any(LinkLost) })
  link.tell(NOTE, 1)
  await expect(link.ask(ECHO, 1)).rejects.toBeInstanceOf(LinkLost)
  link.close()
})

test('a close of its own end rejects its open questions', async () => {
  const [near, far] = await linked()
  const open = near.ask(ECHO, 1)
  near.close()
  await expect(open).rejects.toBeInstanceOf(LinkLost)
  await Promise.all([near.ended, far.ended])
})
