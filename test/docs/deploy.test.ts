/** Manifests in deploy/ fit this version: they parse, and their settings, probes, secrets, and volumes exist. */
import { expect, test } from 'bun:test'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { parseAllDocuments } from 'yaml'
import { toServeConfig, toVariableName } from '../../src/config.ts'
import { isObject } from '../../src/domain/json.ts'
import { SETTINGS } from '../../src/settings.ts'

const ROOT = join(import.meta.dir, '../../deploy')
const FILES = readdirSync(ROOT, { recursive: true, encoding: 'utf8' }).filter((name) => name.endsWith('.yaml'))

const VARIABLES = new Set([
  ...Object.values(SETTINGS).map(({ name }) => toVariableName(name)),
  ...['TOLLGATE_DATA', 'TOLLGATE_SECRET', 'TOLLGATE_IMAGE'],
])

function load(name: string): { text: string; documents: unknown[] } {
  const text = readFileSync(join(ROOT, name), 'utf8')
  const found = parseAllDocuments(text, { merge: true })
  expect(found.flatMap(({ errors }) => errors)).toEqual([])
  return { text, documents: found.map((document) => document.toJS()) }
}

/** All values of a field, wherever it is. */
const valuesOf = (within: unknown, field: string): unknown[] =>
  Array.isArray(within)
    ? within.flatMap((each) => valuesOf(each, field))
    : isObject(within)
      ? Object.entries(within).flatMap(([name, value]) => [
          ...(name === field ? [value] : []),
          ...valuesOf(value, field),
        ])
      : []

const commandsIn = (documents: unknown[]) =>
  [...valuesOf(documents, 'args'), ...valuesOf(documents, 'command')].filter(
    (command): command is string[] => Array.isArray(command) && command[0] === 'serve',
  )

test.each(FILES)('%s starts servers with settings that exist, and valid values', (name) => {
  const { text, documents } = load(name)
  const commands = commandsIn(documents)
  expect(commands.length).toBeGreaterThan(0)
  for (const [, ...rest] of commands) {
    const flags = Object.fromEntries(rest.flatMap((word, i) => (i % 2 === 0 ? [[word.slice(2), rest[i + 1]]] : [])))
    const known = Object.values(SETTINGS).map(({ name }) => name)
    expect(Object.keys(flags).filter((flag) => !known.includes(flag))).toEqual([])
    expect(toServeConfig({ flags, environment: {}, settings: {} }).drainMs).toBe(60_000)
  }
  const used = [...text.matchAll(/\bTOLLGATE_\w+/g)].map(([variable]) => variable)
  expect(used.filter((variable) => !VARIABLES.has(variable))).toEqual([])
})

test('pods are asked at paths that exist, and have the time to drain', () => {
  const { documents } = load('kubernetes/tollgate.yaml')
  const endpoints = readFileSync(join(ROOT, '../src/http/app.ts'), 'utf8')
  const probed = valuesOf(documents, 'httpGet').map((probe) => (isObject(probe) ? probe.path : null))
  expect(new Set(probed)).toEqual(new Set(['/healthz', '/readyz']))
  for (const path of probed) expect(endpoints).toContain(`'${path}'`)
  const [pause] = valuesOf(documents, 'seconds')
  const [grace] = valuesOf(documents, 'terminationGracePeriodSeconds')
  expect(Number(grace)).toBeGreaterThan(Number(pause) + 60 + 6)
})

test('a node has a volume of its own for its data folder', () => {
  const { documents } = load('kubernetes/tollgate.yaml')
  const [set] = documents.filter((document) => isObject(document) && document.kind === 'StatefulSet')
  const claims = valuesOf(set, 'volumeClaimTemplates')
    .flat()
    .flatMap((claim) => valuesOf(claim, 'metadata'))
  const mounts = valuesOf(set, 'volumeMounts').flat()
  expect(claims).toEqual([{ name: 'data' }])
  expect(mounts).toEqual([{ name: 'data', mountPath: '/data' }])
  const folder = valuesOf(set, 'env')
    .flat()
    .find((each) => isObject(each) && each.name === 'TOLLGATE_DATA')
  expect(folder).toEqual({ name: 'TOLLGATE_DATA', value: '/data/node' })
  const services = valuesOf(load('compose.yaml').documents, 'volumes').filter(Array.isArray)
  expect(new Set(services.map(String)).size).toBe(services.length)
})
