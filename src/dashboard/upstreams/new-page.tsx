/** A new upstream, on one screen. */
import { open, toHref } from '../address/address.ts'
import { PlannedForm } from '../catalog/planned-form.tsx'
import { Page } from '../shell/page.tsx'
import { tell } from '../ui/notice.tsx'
import { createUpstream } from './data.ts'
import { UpstreamFields } from './fields.tsx'
import { NEW_UPSTREAM, type UpstreamValues } from './form-values.ts'

export const NewUpstreamPage = () => (
  <Page title="New upstream" above={<a href={toHref('/upstreams')}>Upstreams</a>}>
    <div class="panel narrow form">
      <PlannedForm
        initial={NEW_UPSTREAM}
        send={createUpstream}
        fields={(form) => <UpstreamFields form={form} before={null} />}
        apply="Add it"
        onDone={({ id }: UpstreamValues) => {
          tell(`${id.trim()} is added. It answers once a model has a route to it.`)
          open(`/upstreams?upstream=${encodeURIComponent(id.trim())}`)
        }}
        onCancel={() => open('/upstreams')}
      />
    </div>
  </Page>
)
