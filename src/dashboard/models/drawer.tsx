/** One model: status, routes, prices, and facts. */

import { useState } from 'preact/hooks'
import type { ShownRoute } from '../../documents/model.ts'
import { eachModelField, type ModelFieldName, UPSTREAM_DISABLED } from '../../domain/models.ts'
import { isByUnit, type PricingItem } from '../../domain/usage.ts'
import { named, setQuery, toHref } from '../address/address.ts'
import { may, mayTry } from '../api/session.ts'
import { isFree, toExactCount, toPerMillion, toPrices, toUnitPrices } from '../figures/figures.ts'
import { toPlayed } from '../playground/titles.ts'
import { Button } from '../ui/controls.tsx'
import { Count, Fact, PerMillion, State, When } from '../ui/figure.tsx'
import { FactsRoom, Overlay, Unread } from '../ui/notice.tsx'
import { Headline } from '../ui/resource.tsx'
import { CodeTabs } from '../ui/tabs.tsx'
import { useUpstreams } from '../upstreams/data.ts'
import { TestButton } from '../upstreams/test.tsx'
import { toOriginWord } from '../upstreams/words.ts'
import { type Model, useModel } from './data.ts'
import { EditModel, EditRoute, NewRoute, RemoveRoute, ResetModel } from './edit.tsx'
import { Ladder } from './page.tsx'
import { TestModel } from './test.tsx'
import { toAbilityWord, toCondition, toModelState, toPriceLines, toUnitLines } from './words.ts'

export function ModelDrawer({ slug, onClose }: { slug: string; onClose(): void }) {
  const { data: model, problem, reload } = useModel(slug)
  const upstreams = useUpstreams().data ?? []
  const [open, setOpen] = useState<Open>(named('edit') !== null && may('editor') ? { what: 'edit' } : null)
  const close = () => {
    setOpen(null)
    setQuery({ edit: null })
  }
  return (
    <Overlay kind="drawer" title={slug} onClose={onClose}>
      <Unread of={model} problem={problem} retry={reload}>
        <FactsRoom />
      </Unread>
      {model && (
        <>
          <Standing of={model} />
          <TestModel of={model} />
          <Figures of={model} />
          <section class="part">
            <h3>Routes</h3>
            <Ladder of={model} upstreams={upstreams} actions={may('editor') ? toTools(setOpen, model) : null} />
            {may('editor') && (
              <div class="form-foot">
                <TestButton
                  ids={testable(model)}
                  label={testable(model).length > 1 ? 'Test upstreams' : 'Test upstream'}
                />
                <Button onClick={() => setOpen({ what: 'route', route: null })}>Add route</Button>
              </div>
            )}
          </section>
          <section class="part">
            <h3>Prices</h3>
            <Prices of={model.pricing} />
            {may('editor') && model.pricing.length === 0 && (
              <p>
                <Button onClick={() => setOpen({ what: 'edit' })}>Set price</Button>
              </p>
            )}
          </section>
          <Facts of={model} />
          <History of={model} />
          {model.enabled && <Code of={model} />}
          <p class="links">
            <a href={toHref(`/requests?model=${encodeURIComponent(slug)}`)}>View requests</a>
            {mayTry() && model.enabled && toPlayed(model.output_modalities).length > 0 && (
              <a href={toHref(`/playground?model=${encodeURIComponent(slug)}`)}>Open in playground</a>
            )}
          </p>
          {may('editor') && (
            <div class="form-foot">
              <Button onClick={() => setOpen({ what: 'edit' })}>Edit</Button>
              {isByHand(model) && <Button onClick={() => setOpen({ what: 'reset' })}>Reset</Button>}
            </div>
          )}
          {open?.what === 'edit' && <EditModel of={model} onClose={close} />}
          {open?.what === 'reset' && <ResetModel of={model} onClose={close} />}
          {open?.what === 'route' &&
            (open.route === null ? (
              <NewRoute of={model} upstreams={upstreams} onClose={close} />
            ) : (
              <EditRoute of={model} route={open.route} upstreams={upstreams} onClose={close} />
            ))}
          {open?.what === 'remove' && <RemoveRoute of={model} route={open.route} onClose={close} />}
        </>
      )}
    </Overlay>
  )
}

type Open =
  | { what: 'edit' | 'reset' }
  | { what: 'route'; route: ShownRoute | null }
  | { what: 'remove'; route: ShownRoute }
  | null

const toTools = (setOpen: (open: Open) => void, model: Model) => (route: ShownRoute) => (
  <div class="rung-tools">
    {model.routes.length > 1 && route.enabled && (
      <TestModel of={{ ...model, pricing: route.pricing }} upstream={route.upstream} />
    )}
    <Button kind="quiet" onClick={() => setOpen({ what: 'route', route })}>
      Edit<span class="unseen"> the route to {route.upstream}</span>
    </Button>
    {route.origin === 'admin' && (
      <Button kind="quiet" onClick={() => setOpen({ what: 'remove', route })}>
        Remove<span class="unseen"> the route to {route.upstream}</span>
      </Button>
    )}
  </div>
)

const isByHand = ({ origin, routes }: Model) => [origin, ...routes.map((route) => route.origin)].includes('admin')

const testable = ({ routes }: Model) => [
  ...new Set(routes.flatMap(({ upstream, reason }) => (reason === UPSTREAM_DISABLED ? [] : upstream))),
]

function Standing({ of: model }: { of: Model }) {
  const { kind, word } = toModelState(model)
  return (
    <div>
      <p>
        <State kind={kind}>{word}</State>{' '}
        <span class="dim">
          · {model.name}, owned by {model.owned_by}
        </span>
      </p>
      {(model.enabled || model.pricing.length === 0) && model.reason && <p class="reason">{model.reason}</p>}
    </div>
  )
}

const Figures = ({ of: { pricing, context_length } }: { of: Model }) => {
  const [price] = pricing
  const prices = [
    ...(isByUnit(pricing)
      ? []
      : ([
          ['input, per million', <PerMillion key="in" usd={price?.prompt} />],
          ['output, per million', <PerMillion key="out" usd={price?.completion} />],
        ] as const)),
    ...toUnitPrices(pricing).map(([word, usd]) => [`per ${word}`, usd] as const),
  ] as const
  const none = [['price', pricing.length === 0 ? 'unknown' : 'free']] as const
  return (
    <Headline
      of={[...(isFree(pricing) ? none : prices), ['context, tokens', <Count key="context" count={context_length} />]]}
    />
  )
}

const Facts = ({ of: model }: { of: Model }) => (
  <section class="part">
    <h3>Details</h3>
    <dl class="facts">
      <Fact name="Input">{model.input_modalities.map(toAbilityWord).join(', ')}</Fact>
      <Fact name="Output">{model.output_modalities.map(toAbilityWord).join(', ')}</Fact>
      {eachModelField(
        (name, { fact, no }) =>
          fact && (
            <Fact key={name} name={fact}>
              {toFactText(model[name], no)}
            </Fact>
          ),
      )}
      {model.aliases.length > 0 && <Fact name="Aliases">{model.aliases.join(', ')}</Fact>}
      <Fact name="Source">
        {toOriginWord(model.origin)}
        {model.from_wildcard && ', by wildcard'}
      </Fact>
    </dl>
  </section>
)

function toFactText(value: Model[ModelFieldName], no = ''): string {
  if (typeof value === 'number') return `up to ${toExactCount(value)} ${value === 1 ? 'token' : 'tokens'}`
  if (typeof value === 'boolean') return value ? 'yes' : `no: ${no}`
  return value.map(toAbilityWord).join(', ') || 'none'
}

/** Snippets, with a placeholder for the key. */
const Code = ({ of: { slug, output_modalities: made } }: { of: Model }) => (
  <details>
    <summary>Code</summary>
    <div class="form">
      <CodeTabs
        label="Clients"
        of={({ toSnippets }) => toSnippets({ baseUrl: `${location.origin}/v1`, secret: 'YOUR_KEY', model: slug }, made)}
      />
      <p class="hint">
        Replace <code>YOUR_KEY</code> with an API key.
      </p>
    </div>
  </details>
)

/** Newest first. */
function History({ of: { prices } }: { of: Model }) {
  if (prices.length < 2) return null
  return (
    <details>
      <summary>Price history ({prices.length})</summary>
      <ul class="price-history">
        {prices
          .toSorted((a, b) => b.created_ms - a.created_ms)
          .map((price) => (
            <li key={price.id}>
              <When ms={price.created_ms} />
              <span>
                {toPrices(price.pricing)}
                {price.upstream !== null && ` on ${price.upstream}`}
              </span>
              {price.in_force && <State kind="good">current</State>}
            </li>
          ))}
      </ul>
    </details>
  )
}

function Prices({ of: pricing }: { of: readonly PricingItem[] }) {
  if (pricing.length === 0) return <p>No known price. Its first price enables this model.</p>
  const units = toUnitLines(pricing)
  return (
    <>
      {pricing.map((item) => (
        <TokenPrices key={toCondition(item)} of={item} />
      ))}
      {units.length > 0 && (
        <table class="prices">
          <thead>
            <tr>
              <th scope="col">
                <span class="unseen">Unit</span>
              </th>
              <th scope="col">each</th>
            </tr>
          </thead>
          <tbody>
            {units.map(({ title, usd, terms }) => (
              <tr key={title}>
                <th scope="row">{title}</th>
                <td>
                  <code>${usd}</code>
                  {terms}
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
    </>
  )
}

function TokenPrices({ of: item }: { of: PricingItem }) {
  const lines = toPriceLines(item).filter(({ isOfTokens }) => isOfTokens)
  if (lines.length === 0) return null
  return (
    <table class="prices">
      {toCondition(item) !== '' && <caption>{toCondition(item)}</caption>}
      <thead>
        <tr>
          <th scope="col">
            <span class="unseen">Item</span>
          </th>
          <th scope="col">per million</th>
          <th scope="col">per token</th>
        </tr>
      </thead>
      <tbody>
        {lines.map(({ name, word, usd }) => (
          <tr key={name}>
            <th scope="row">{word}</th>
            <td>{toPerMillion(usd)}</td>
            <td>
              <code>${usd}</code>
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  )
}
