/** Combines reports of local servers with the catalog. */
import { expect, test } from 'bun:test'
import { withServed } from '../../src/catalog/served.ts'
import type { ListedModel } from '../../src/domain/model-server.ts'
import type { Origin } from '../../src/domain/models.ts'
import type { CatalogModel, Target, Upstream } from '../../src/domain/snapshot.ts'
import { toModel, toSnapshot, toTarget } from '../support/snapshot.ts'

const toLocal = (origin: Origin, fields: Partial<Upstream> = {}, more: Partial<Target> = {}): Target => ({
  ...toTarget({ id: 'box', local: true, ...fields }),
  ...{ upstreamModel: 'tiny', maxOutputLength: 1_000, ...more, origin },
})

const toServed = (says: ListedModel) => new Map([['box', new Map([[says.id, says]])]])

function lay(origin: Origin, target: Target, says: Partial<ListedModel>, facts: Partial<CatalogModel['facts']> = {}) {
  const model = toModel('local/tiny', [target])
  const made = { ...model, origin, facts: { ...model.facts, supported_features: ['tools' as const], ...facts } }
  const { snapshot, contradictions } = withServed(toSnapshot([made]), toServed({ id: 'tiny', ...says }))
  const found = snapshot.models.get('local/tiny')
  const [first] = found?.targets ?? []
  return { facts: found?.facts, target: first, contradictions }
}

test.each([4_096, 32_768])('a server with a context of %i overrides discovered facts', (servedContext) => {
  const { facts, target, contradictions } = lay('discovered', toLocal('discovered'), {
    ...{ servedContext, inputModalities: ['text', 'image'], can: { tools: false, reasoning: true } },
    ...{ quantization: 'Q4_K_M', sizeBytes: 397_806_592 },
  })
  expect(target).toMatchObject({ contextLength: servedContext, maxOutputLength: 1_000, features: ['reasoning'] })
  expect(facts).toMatchObject({
    ...{ context_length: servedContext, max_output_length: 1_000, supported_features: ['reasoning'] },
    ...{ input_modalities: ['text', 'image'], quantization: 'Q4_K_M', size_bytes: 397_806_592 },
  })
  expect(contradictions).toEqual([])
})

test.each<Origin>(['file', 'admin'])("facts from %s stay, except for a context above the server's", (origin) => {
  const declared = { input_modalities: ['text' as const, 'audio' as const] }
  const says: Partial<ListedModel> = { inputModalities: ['text', 'image'], can: { tools: false, reasoning: true } }
  const less = lay(origin, toLocal(origin), { ...says, servedContext: 512 }, declared)
  expect(less.target).toMatchObject({ contextLength: 512, maxOutputLength: 512, features: ['tools'] })
  expect(less.facts).toMatchObject({ ...declared, context_length: 512, supported_features: ['tools'] })
  expect(less.contradictions.map(({ catalog, server }) => `${catalog}: ${server}`)).toEqual([
    'context_length 8192: 512 tokens',
    'input_modalities audio: supports none of these',
    'supported_features tools: supports none of these',
  ])
  const more = lay(origin, toLocal(origin), { servedContext: 32_768, can: { tools: true, reasoning: true } })
  expect(more.facts).toMatchObject({ context_length: 8_192, supported_features: ['tools'] })
  expect(more.contradictions).toEqual([])
})

test('a context that requests set is limited to the trained context, and never extended', () => {
  const asked = (says: Partial<ListedModel>) => lay('discovered', toLocal('discovered'), says).target?.contextLength
  expect(asked({ trainedContext: 2_048 })).toBe(2_048)
  expect(asked({ trainedContext: 131_072 })).toBe(8_192)
})

test("a discovered route of a declared model has the server's context, at most the model's", () => {
  const toLength = (servedContext: number) => {
    const { facts, target } = lay('file', toLocal('discovered'), { servedContext })
    return [facts?.context_length, target?.contextLength]
  }
  expect(toLength(4_096)).toEqual([4_096, 4_096])
  expect(toLength(32_768)).toEqual([8_192, 8_192])
})

test('a model with other routes has the context of its longest one', () => {
  const model = toModel('local/tiny', [toLocal('file'), toTarget({ id: 'hosted' })])
  const { snapshot } = withServed(toSnapshot([model]), toServed({ id: 'tiny', servedContext: 512 }))
  const found = snapshot.models.get('local/tiny')
  expect(found?.facts.context_length).toBe(8_192)
  expect(found?.targets.map(({ contextLength }) => contextLength)).toEqual([512, 8_192])
})

test("another model of the same server doesn't count, unless the server has one for all names", () => {
  const says = { id: 'other', servedContext: 512 }
  expect(lay('file', toLocal('file'), says).target?.contextLength).toBe(8_192)
  expect(lay('file', toLocal('file', { process: 'hash' }), says).target?.contextLength).toBe(512)
  expect(lay('file', toLocal('file'), { id: 'tiny:latest', servedContext: 512 }).target?.contextLength).toBe(512)
  expect(lay('file', toLocal('file'), { servedContext: 512, isElsewhere: true }).target?.contextLength).toBe(8_192)
})
