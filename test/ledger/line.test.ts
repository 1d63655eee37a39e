/** A line of the journal: whatever a client wrote is read back unchanged, and damage is detected. */
import { describe, expect, test } from 'bun:test'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { fromLine, Lines, toHead, toRecordLine } from '../../src/ledger/journal-file.ts'
import { toFirstCall, withFirstCall } from '../../src/store/ledger-rows.ts'
import { opening, settling, toCall, toOpen, toSettled, toSettledCall } from './fixture.ts'

const read = (line: string) => fromLine(line.slice(0, -1))
const readJson = (record: unknown) => {
  const lines = new Lines()
  lines.addJson(JSON.stringify(record))
  return read(lines.bytes.toString())
}

describe('a line', () => {
  test('reads back every record unchanged, whatever the client wrote in it', () => {
    for (const user of [
      'plain',
      'ünïcödé 漢字 🙂',
      'a\nb\r\n',
      'separators \u2028 and \u2029',
      '\u0000\u007f"\\',
      null,
    ]) {
      const record = settling(toSettled(toOpen({ user })))
      const line = toRecordLine(record)
      expect(line.indexOf('\n')).toBe(line.length - 1)
      expect(read(line)).toEqual(record)
    }
  })

  test('reads back a request with its maximum number of calls', () => {
    const row = toOpen()
    const reasons = ['retry', 'fallback', 'fan_out', 'schema'] as const
    const calls = Array.from({ length: 127 }, (_, i) => {
      const call = toCall(row, i + 2, { reason: reasons[i % 4] ?? 'retry', priceId: i % 3 === 0 ? null : row.priceId })
      if (i % 2 === 0) return toSettledCall(call, { status: 'failed', httpStatus: null, errorCode: 'upstream_error' })
      return toSettledCall(call, { durationMs: i, firstTokenMs: null, upstreamRequestId: 'ünï"\n' })
    })
    const record = settling(toSettled(row, { attempts: 128 }), calls)
    expect(read(toRecordLine(record))).toEqual(record)
  })

  test('marks fields of its request that a call lacks', () => {
    const row = toSettled(toOpen(), { attempts: 2, audioMs: 1_500, images: 2, countedBy: 'file' })
    const call = toCall(row, 2)
    const calls = [
      toSettledCall(toFirstCall(row), { audioMs: 1_500, countedBy: 'file' }),
      toSettledCall(call, { images: 2 }),
    ]
    const record = read(toRecordLine(settling(row, calls)))
    const [first, second] = (record?.kind === 'settle' && record.calls) || []
    expect([first?.audioMs, first?.images, first?.countedBy]).toEqual([1_500, 0, 'file'])
    expect([second?.audioMs, second?.images, second?.countedBy]).toEqual([0, 2, null])
  })

  test('stores only those fields of a call that differ from its request', () => {
    const row = toSettled(toOpen(), { attempts: 128 })
    const { id, model, stream, user, keyId, teamId, endpoint, attempts, ...shared } = row
    const calls = Array.from({ length: 127 }, (_, i) =>
      toSettledCall(toCall(row, i + 2, { reason: 'fan_out' }), { ...shared, durationMs: 100 + i }),
    )
    const record = settling(row, calls)
    const line = toRecordLine(record)
    expect(read(line)).toEqual(record)
    expect(line.length).toBeLessThan(8_000)
  })

  test('is the same among others, however many they are and whatever was removed before it', () => {
    const lines = new Lines()
    const records = Array.from({ length: 400 }, (_, i) => settling(toSettled(toOpen({ user: '漢é'.repeat(i % 50) }))))
    for (const record of records) {
      const from = lines.length
      lines.add(opening(toOpen({ user: 'ü'.repeat(200) })))
      lines.length = from
      lines.add(record)
    }
    expect(lines.bytes.toString()).toBe(records.map(toRecordLine).join(''))
    lines.clear()
    expect(lines.bytes.length).toBe(0)
  })

  test('with any byte changed or missing is skipped', () => {
    const line = toRecordLine(opening(toOpen())).slice(0, -1)
    for (let at = 0; at < line.length; at++) {
      expect(fromLine(`${line.slice(0, at)}${line[at] === '7' ? '8' : '7'}${line.slice(at + 1)}`)).toBeNull()
      expect(fromLine(line.slice(0, at))).toBeNull()
    }
  })

  test('of a version that kept the first call within its request is read like one of this version', () => {
    const row = toSettled(toOpen(), { attempts: 2, upstream: 'spare' })
    const second = toSettledCall(toCall(row, 2))
    const said = { upstream: 'paid', status: 'failed', http_status: 500, reported_nano_usd: 7 }
    const former = {
      kind: 'settle',
      row: { ...row, firstCall: JSON.stringify(said) },
      calls: [{ ...second, endedBefore: null }],
    }
    const first = { upstream: 'paid', status: 'failed', httpStatus: 500, reportedNanoUsd: 7 } as const
    expect(readJson(former)).toMatchObject({ kind: 'settle', row, calls: withFirstCall(row, [second], first) })
    expect(readJson(former)).not.toHaveProperty('row.firstCall')
    const call = {
      ...toCall(row, 3),
      endedBefore: '[{"number":1,"status":"ok","cost_nano_usd":40},{"number":2,"status":"failed"}]',
    }
    expect(readJson({ kind: 'call', call })).toMatchObject({
      call: toCall(row, 3),
      ended: [
        { number: 1, reason: 'first', status: 'ok', costNanoUsd: 40, promptTokens: 0 },
        { number: 2, status: 'failed', costNanoUsd: 0 },
      ],
    })
  })

  test("that begins a segment is no record, and states the segment's schema", () => {
    expect(read(toHead('0007_more'))).toBeNull()
    expect(toHead('0007_more')).toEndWith(' {"v":1,"schema":"0007_more"}\n')
  })
})

test('a segment in preparation is completed, even if others use up all file descriptors meanwhile', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'tollgate-test-'))
  const script = resolve(import.meta.dir, 'short-of-files.ts')
  const command = `ulimit -n 64; exec '${process.execPath}' '${script}' '${join(folder, 'journal', 'a-1.log')}'`
  const child = Bun.spawn(['sh', '-c', command], { stdout: 'pipe', stderr: 'pipe' })
  expect(await child.stdout.text()).toBe('true\n')
  expect(await child.exited).toBe(0)
  rmSync(folder, { recursive: true })
})
