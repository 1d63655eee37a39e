/** Where a catalogue says that credentials are: in variables and in files, as they are mounted for a service. */
import { beforeEach, expect, test } from 'bun:test'
import { chmodSync, mkdirSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { isReference, resolveReference } from '../../src/store/credential-binding.ts'
import { createTestFolder, forEachTest } from '../support/lifetime.ts'

let path: string
const folder = forEachTest(createTestFolder)
beforeEach(() => {
  path = join(folder.path, 'key')
})

const resolve = (reference: string, environment = {}) => resolveReference(reference, environment, 'here')
const write = (text: string, mode = 0o600) => {
  writeFileSync(path, text)
  chmodSync(path, mode)
}

test.each([
  ['$' + '{OPENAI_API_KEY}', true],
  ['file:/run/secrets/openai', true],
  ['file:$' + '{CREDENTIALS_DIRECTORY}/openai', true],
  ['file:openai', false],
  ['file:', false],
  ['file:/a\nb', false],
  ['sk-proj-x', false],
  ['$' + '{A}$' + '{B}', false],
])('%j is a reference: %p', (text, expected) => expect(isReference(text)).toBe(expected))

test('a file has the credential alone, and the line break of an editor is no part of it', () => {
  write('sk-in-a-file\n')
  expect(resolve(`file:${path}`)).toEqual({ credential: 'sk-in-a-file' })
})

test('a file lies in the folder that a variable names, as systemd says it', () => {
  write('sk-in-a-file', 0o400)
  expect(resolve('file:$' + '{CREDENTIALS_DIRECTORY}/key', { CREDENTIALS_DIRECTORY: folder.path })).toEqual({
    credential: 'sk-in-a-file',
  })
  expect(resolve('file:$' + '{CREDENTIALS_DIRECTORY}/key')).toEqual({
    problem: 'the variable CREDENTIALS_DIRECTORY is not set here',
  })
})

test('one that is mounted as a container does it, for everybody to read and behind a link, is taken', () => {
  write('sk-in-a-file', 0o444)
  symlinkSync(path, join(folder.path, 'link'))
  expect(resolve(`file:${join(folder.path, 'link')}`)).toEqual({ credential: 'sk-in-a-file' })
})

test('the JSON of a service account is taken whole', () => {
  const json = '{\n  "type": "service_account"\n}'
  write(`${json}\n`)
  expect(resolve(`file:${path}`)).toEqual({ credential: json })
})

test.each<[string, () => void, RegExp]>([
  ['that is not there', () => {}, /does not exist$/],
  ['that is empty', () => write('\n'), /is empty$/],
  ['that is a folder', () => mkdirSync(path), /is not a file$/],
  ['with two lines', () => write('sk-one\nsk-two\n'), /must hold exactly one credential$/],
  ['that is too long', () => write('x'.repeat(65 * 1024)), /too long/],
  ['that everybody may write', () => write('sk-in-a-file', 0o666), /is world-writable: fix with chmod o-w$/],
])('of a file %s it is said what is wrong, and nothing of what it holds', (_, make, problem) => {
  make()
  const found = resolve(`file:${path}`)
  expect(found).toEqual({ problem: expect.stringMatching(problem) })
  expect(JSON.stringify(found)).not.toMatch(/sk-|xxx/)
})

test("the server's own secrets are no credentials, also behind a link", () => {
  expect(resolve('$' + '{TOLLGATE_SECRET}', { TOLLGATE_SECRET: 'sk-own' })).toEqual({
    problem: "the variable TOLLGATE_SECRET is the server's own secret",
  })
  path = join(folder.path, 'secret')
  write('sk-in-a-file')
  symlinkSync(path, join(folder.path, 'link'))
  const isRefused = () => 'problem' in resolve(`file:${join(folder.path, 'link')}`)
  expect(isRefused()).toBe(false)
  writeFileSync(join(folder.path, 'tollgate.db'), '')
  expect(isRefused()).toBe(true)
})
