/** Models: all of the catalogue, searched and filtered by what the address says, and the drawer of one. */

import type { ComponentChildren } from 'preact'
import type { ShownModel } from '../../documents/model.ts'
import type { ShownUpstream } from '../../documents/upstream.ts'
import { toFigureText } from '../../domain/model-server.ts'
import { named, query, setQuery, toHref, toHrefWith } from '../address/address.ts'
import { toExactCount, toPercent, toPrices } from '../figures/figures.ts'
import { Page } from '../shell/page.tsx'
import { ButtonLink, Code } from '../ui/controls.tsx'
import { Count, None, State } from '../ui/figure.tsx'
import { Empty, Unread } from '../ui/notice.tsx'
import { List } from '../ui/resource.tsx'
import { Choice, type Column } from '../ui/table.tsx'
import { useUpstreams } from '../upstreams/data.ts'
import { useModels } from './data.ts'
import { ModelDrawer, Price } from './drawer.tsx'
import {
  ABILITY_OPTIONS,
  filterModels,
  type Rung,
  toAbilityWord,
  toFeatures,
  toLadder,
  toModelState,
  toRouteHealth,
} from './words.ts'

export function ModelsPage() {
  const { data: models, problem, reload } = useModels()
  const open = named('model')
  return (
    <Page title="Models" actions={<ButtonLink href={toHref('/models/catalog')}>The catalogue</ButtonLink>}>
      <Unread of={models} problem={problem} retry={reload} />
      {models !== null && (models.length === 0 ? <NoModels /> : <Models models={models} />)}
      {open !== null && <ModelDrawer key={open} slug={open} onClose={() => setQuery({ model: null })} />}
    </Page>
  )
}

const EXAMPLE = `models:
  openai/*: { routes: [{ upstream: openai, model: "*" }] }`

const NoModels = () => (
  <Empty title="No models yet">
    <p>
      A model has a name that clients ask for, a price, and routes: the upstreams that answer for it, one after the
      other. Facts and prices of public models are known already.
    </p>
    <p class="dim">
      In <code>catalog.yaml</code> of the data folder, or by{' '}
      <a href={toHref('/models/catalog')}>the catalogue's page</a>:
    </p>
    <Code label="A catalogue with models" text={EXAMPLE} />
  </Empty>
)

const STATES = [
  ['', 'In any state'],
  ['ready', 'Ready'],
  ['not_ready', 'Not ready'],
  ['disabled', 'Disabled'],
] as const

function Models({ models }: { models: readonly ShownModel[] }) {
  const read = (name: string) => query.value.get(name) ?? ''
  const filter = { search: read('search'), state: read('state'), upstream: read('upstream'), feature: read('feature') }
  const shown = filterModels(models, filter)
  const upstreams = [...new Set(models.flatMap(({ routes }) => routes.map(({ upstream }) => upstream)))].sort()
  return (
    <List
      what="models"
      columns={COLUMNS}
      rows={shown}
      all={models.length}
      idOf={({ slug }) => slug}
      filters={
        <>
          <Choice name="state" label="State" value={filter.state} options={STATES} />
          {upstreams.length > 1 && (
            <Choice
              name="upstream"
              label="Upstream"
              value={filter.upstream}
              options={[['', 'On any upstream'], ...upstreams.map((one) => [one, one] as const)]}
            />
          )}
          <Choice
            name="feature"
            label="What they can"
            value={filter.feature}
            options={[['', 'Whatever they can'], ...ABILITY_OPTIONS]}
          />
        </>
      }
      none={['No model is like that.', '/models', 'Show all of them']}
      foot=". Prices are for a million tokens."
    />
  )
}

const COLUMNS: readonly Column<ShownModel>[] = [
  {
    name: 'name',
    title: 'Model',
    sortBy: ({ slug }) => slug,
    cell: ({ slug, name, listed }) => (
      <>
        <a class="row-link" href={toHrefWith({ model: slug })}>
          {slug}
        </a>
        <span class="under">
          {name}
          {!listed && ', not listed'}
        </span>
      </>
    ),
  },
  {
    name: 'state',
    title: 'State',
    sortBy: (model) => toModelState(model).word,
    cell: (model) => {
      const { kind, word } = toModelState(model)
      return (
        <div class="state-cell">
          <State kind={kind}>{word}</State>
          {(model.enabled || model.pricing.length === 0) && model.reason && <span class="under">{model.reason}</span>}
        </div>
      )
    },
  },
  { name: 'routes', title: 'Routes', isOnPhone: false, cell: (model) => <RoutesCell of={model} /> },
  {
    name: 'in',
    title: 'In',
    isFigure: true,
    sortBy: ({ pricing }) => Number(pricing[0]?.prompt ?? 0),
    cell: ({ pricing }) => <Price of={pricing} usd={pricing[0]?.prompt} />,
  },
  {
    name: 'out',
    title: 'Out',
    isFigure: true,
    sortBy: ({ pricing }) => Number(pricing[0]?.completion ?? 0),
    cell: ({ pricing }) => <Price of={pricing} usd={pricing[0]?.completion} />,
  },
  {
    name: 'context',
    title: 'Context',
    isFigure: true,
    isOnPhone: false,
    sortBy: ({ context_length }) => context_length,
    cell: ({ context_length }) => <Count count={context_length} />,
  },
  {
    name: 'features',
    title: 'Can',
    isOnPhone: false,
    cell: (model) => <span class="words">{toFeatures(model).join(', ') || <None />}</span>,
  },
]

function RoutesCell({ of: model }: { of: ShownModel }) {
  const upstreams = useUpstreams().data ?? []
  return <Rungs of={model} upstreams={upstreams} />
}

type Of = Pick<ShownModel, 'slug' | 'routes'>

const upstreamOf = (upstreams: readonly ShownUpstream[], { upstream }: Rung) =>
  upstreams.find(({ id }) => id === upstream)

/** For a cell: the upstreams alone. */
const RUNGS_SHOWN = 3

function Rungs({ of: model, upstreams }: { of: Of; upstreams: readonly ShownUpstream[] }) {
  const rungs = toLadder(model.routes)
  return (
    <ol class="rungs">
      {rungs.slice(0, RUNGS_SHOWN).map((rung) => {
        const { kind, word } = toRouteHealth(model.slug, rung, upstreamOf(upstreams, rung))
        return (
          <li key={`${rung.upstream} ${rung.upstream_model}`} title={word}>
            <State kind={kind}>{rung.upstream}</State>
            <span class="unseen">: {word}</span>
          </li>
        )
      })}
      {rungs.length > RUNGS_SHOWN && <li class="dim">+{rungs.length - RUNGS_SHOWN}</li>}
    </ol>
  )
}

const PLACES = { only: 'Asked', first: 'First', next: 'Then', last: 'Last', off: 'Not asked' } as const

interface LadderProps {
  of: ShownModel
  upstreams: readonly ShownUpstream[]
  /** What can be done with a route; null for nothing. */
  actions: ((route: Rung) => ComponentChildren) | null
}

export const Ladder = ({ of: model, upstreams, actions }: LadderProps) => (
  <ol class="ladder">
    {toLadder(model.routes).map((rung) => {
      const { kind, word, reason } = toRouteHealth(model.slug, rung, upstreamOf(upstreams, rung))
      const differences = toDifferences(model, rung)
      const figures = rung.served === null ? '' : toFigureText(rung.served)
      return (
        <li key={`${rung.upstream} ${rung.upstream_model}`}>
          <span class="place">
            {PLACES[rung.place]}
            {rung.share > 0 && rung.share < 1 && <span class="dim">{toPercent(rung.share)}</span>}
          </span>
          <div class="rung">
            <p>
              <a href={toHref(`/upstreams?upstream=${encodeURIComponent(rung.upstream)}`)}>{rung.upstream}</a>{' '}
              <code>{rung.upstream_model}</code>
            </p>
            <p>
              <State kind={kind}>{word}</State>
            </p>
            {reason && <p class="reason">{reason}</p>}
            {figures !== '' && <p class="hint">Its server: {figures}</p>}
            {differences !== '' && <p class="hint">{differences}</p>}
            {actions?.(rung)}
          </div>
        </li>
      )
    })}
  </ol>
)

/** What a route does otherwise than its model says. */
function toDifferences(model: ShownModel, rung: Rung): string {
  const missing = model.supported_features.filter((feature) => !rung.supported_features.includes(feature))
  return [
    ...(rung.own_price ? [`price of its own: ${toPrices(rung.pricing)}`] : []),
    ...(rung.context_length === model.context_length ? [] : [`context ${toExactCount(rung.context_length)}`]),
    ...(rung.max_output_length === model.max_output_length
      ? []
      : [`answers up to ${toExactCount(rung.max_output_length)} tokens`]),
    ...(missing.length === 0 ? [] : [`without ${missing.map(toAbilityWord).join(', ')}`]),
  ].join('; ')
}
