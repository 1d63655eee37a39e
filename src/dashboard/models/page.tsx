/** Models: all of the catalogue, searched and filtered by what the address says, and the drawer of one. */
import { useState } from 'preact/hooks'
import type { ShownModel } from '../../documents/model.ts'
import { named, query, setQuery, toHref, toHrefWith } from '../address/address.ts'
import { Page } from '../shell/page.tsx'
import { ButtonLink } from '../ui/button.tsx'
import { Code } from '../ui/copy.tsx'
import { Count, None, State } from '../ui/figure.tsx'
import { Choice, ListFoot, SearchFilter } from '../ui/filters.tsx'
import { More, STEP } from '../ui/more.tsx'
import { Empty } from '../ui/notice.tsx'
import { type Column, Table } from '../ui/table.tsx'
import { Unread } from '../ui/unread.tsx'
import { useUpstreams } from '../upstreams/data.ts'
import { useModels } from './data.ts'
import { ModelDrawer } from './drawer.tsx'
import { Rungs } from './ladder.tsx'
import { Price } from './price.tsx'
import { FEATURE_WORDS, filterModels, toFeatures, toModelState } from './words.ts'

export function ModelsPage() {
  const { data: models, problem, reload } = useModels()
  const open = named('model')
  return (
    <Page title="Models" actions={<ButtonLink href={toHref('/models/catalog')}>The catalogue</ButtonLink>}>
      <Unread of={models} problem={problem} retry={reload} />
      {models !== null && (models.length === 0 ? <NoModels /> : <List models={models} />)}
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

const FEATURES = [
  ['', 'Whatever they can'],
  ...Object.entries(FEATURE_WORDS),
  ['image', 'images'],
  ['file', 'files'],
  ['audio', 'audio'],
  ['embeddings', 'embeddings'],
] as const

function List({ models }: { models: readonly ShownModel[] }) {
  const [most, setMost] = useState(STEP)
  const read = (name: string) => query.value.get(name) ?? ''
  const filter = { search: read('search'), state: read('state'), upstream: read('upstream'), feature: read('feature') }
  const shown = filterModels(models, filter)
  const upstreams = [...new Set(models.flatMap(({ routes }) => routes.map(({ upstream }) => upstream)))].sort()
  return (
    <>
      <search class="filters">
        <SearchFilter what="models" />
        <Choice name="state" label="State" value={filter.state} options={STATES} />
        {upstreams.length > 1 && (
          <Choice
            name="upstream"
            label="Upstream"
            value={filter.upstream}
            options={[['', 'On any upstream'], ...upstreams.map((one) => [one, one] as const)]}
          />
        )}
        <Choice name="feature" label="What they can" value={filter.feature} options={FEATURES} />
      </search>
      {shown.length > 0 ? (
        <Table caption="Models" columns={COLUMNS} rows={shown} idOf={({ slug }) => slug} most={most} />
      ) : (
        <p class="dim">
          No model is like that. <a href={toHref('/models')}>Show all of them</a>
        </p>
      )}
      <ListFoot shown={shown.length} all={models.length}>
        . Prices are for a million tokens.
      </ListFoot>
      <More rows={shown.length} most={most} setMost={setMost} />
    </>
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
