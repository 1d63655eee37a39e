/** A client that reads only the head of an endless stream: without back-pressure the gateway's memory grows. */
import { once } from 'node:events'
import { createConnection } from 'node:net'
import { startUpstream } from '../support/upstream.ts'
import { endlessAnswer, wholeAnswer } from '../support/upstream-answers.ts'
import { toRequest } from './exchange.ts'
import { toChatBody } from './json-load.ts'
import { followRss, settledRss, warmToIdle } from './memory.ts'
import { startSubject } from './subjects.ts'
import type { Build } from './tollgate.ts'

/** MB. */
export interface SlowResult {
  seconds: number
  before: number
  peak: number
  after: number
  afterToBefore: number
  /** Amount that the upstream could write: both kernels' buffers and the gateway's. */
  taken: number
  /** Still open at the end, so that the figures mean something. */
  open: boolean
}

/** Stops reading for `seconds` on a separate build. */
export async function readSlowly(name: Build, root: string, seconds: number): Promise<SlowResult> {
  const endless = await startUpstream(({ method, json }) => {
    if (method === 'GET') return { kind: 'whole', body: { object: 'list', data: [] } }
    return json?.stream === true ? endlessAnswer(4_096) : wholeAnswer()
  })
  const subject = await startSubject(name, root, new URL(endless.url).origin)
  const before = await warmToIdle(subject)
  const { pid } = subject.process
  const client = createConnection({ host: '127.0.0.1', port: Number(new URL(subject.origin).port) })
  client.on('error', () => {})
  client.write(toRequest(subject, toChatBody(subject.model, { stream: true })))
  const [head] = await once(client, 'data')
  client.pause()
  if (!String(head).startsWith('HTTP/1.1 200')) throw new Error(`the stream did not begin: ${head}`)
  const follower = followRss(pid)
  await Bun.sleep(seconds * 1000)
  follower.stop()
  const after = await settledRss(pid)
  const stream = endless.requests.findLast(({ json }) => json?.stream === true)
  const result = {
    seconds,
    before,
    peak: follower.peak(),
    after,
    afterToBefore: after / before,
    taken: (stream?.bytesSent ?? 0) / 1e6,
    open: stream !== undefined && stream.abortedAtMs === null,
  }
  client.destroy()
  await subject.process.stop()
  await endless.stop()
  return result
}
