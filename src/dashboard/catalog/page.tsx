/** The catalogue as a whole: what it was, back to that, out as a file, and in again. */
import { useState } from 'preact/hooks'
import { query, setQuery, toHref, toHrefWith } from '../address/address.ts'
import { may } from '../api/session.ts'
import { Page } from '../shell/page.tsx'
import { Button } from '../ui/button.tsx'
import { Code } from '../ui/copy.tsx'
import { When } from '../ui/figure.tsx'
import { Empty } from '../ui/notice.tsx'
import { type Column, Table } from '../ui/table.tsx'
import { Unread } from '../ui/unread.tsx'
import { ApplyDrawer } from './apply.tsx'
import { useVersions } from './data.ts'
import { ExportDrawer } from './export.tsx'
import { VersionDrawer } from './version.tsx'
import { toCountsText, toVersionText } from './words.ts'

export function CatalogPage() {
  const { data: versions, problem, reload } = useVersions()
  const [open, setOpen] = useState<'export' | 'apply' | null>(null)
  const close = () => setOpen(null)
  const shown = Number(query.value.get('version'))
  const actions = (
    <>
      <Button onClick={() => setOpen('export')}>Export</Button>
      {may('editor') && <Button onClick={() => setOpen('apply')}>Apply a file</Button>}
    </>
  )
  return (
    <Page title="Catalogue" above={<a href={toHref('/models')}>Models</a>} actions={actions}>
      <Unread of={versions} problem={problem} retry={reload} />
      {versions !== null &&
        (versions.length === 0 ? (
          <NoVersions />
        ) : (
          <>
            <Table
              caption="Versions of the catalogue"
              columns={COLUMNS}
              rows={versions}
              idOf={({ number }) => String(number)}
            />
            <p class="list-foot">
              Upstreams, models, routes and aliases, as they were after each change. The newest hundred versions are
              kept.
            </p>
          </>
        ))}
      {open === 'export' && <ExportDrawer onClose={close} />}
      {open === 'apply' && <ApplyDrawer onClose={close} />}
      {shown > 0 && (
        <VersionDrawer
          key={shown}
          number={shown}
          isNewest={versions?.[0]?.number === shown}
          onClose={() => setQuery({ version: null })}
        />
      )}
    </Page>
  )
}

const NoVersions = () => (
  <Empty title="No version yet">
    <p>Each change of the catalogue is kept here, with what it changed, and any can be brought back.</p>
    <p class="dim">A file is applied here, or on the command line:</p>
    <Code label="Command that applies a catalogue" text="tollgate catalog apply catalog.yaml" />
  </Empty>
)

type Version = NonNullable<ReturnType<typeof useVersions>['data']>[number]

const COLUMNS: readonly Column<Version>[] = [
  {
    name: 'why',
    title: 'Version',
    cell: (version) => (
      <a class="row-link" href={toHrefWith({ version: String(version.number) })}>
        {version.number} · {toVersionText(version)}
      </a>
    ),
  },
  { name: 'changed', title: 'Changed', cell: toCountsText },
  { name: 'when', title: 'When', isFigure: true, cell: ({ at_ms }) => <When ms={at_ms} /> },
]
